"""The configuration of a run: files that trainers and launchers leave in its folder, without secrets."""
