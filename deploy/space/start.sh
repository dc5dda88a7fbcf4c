#!/bin/sh
# Serves the demo under the Space's own name, in the frame of its page. SPACE_HOST is set by the Space.
set -eu
exec rlpanel demo --host 0.0.0.0 --port "${PORT:-7860}" --no-show --token "" --read-only --max-pages 40 \
    --origin "${SPACE_HOST:-localhost:7860}" --embed-in https://huggingface.co
