"""What runs inside training: write rollouts as they are made, and never stand in training's way.

Standard library alone at import, so ``pip install --no-deps rlpanel`` is enough on a training node.
Trainers' own packages are never imported: tensors, tokenizers and trainers are met as they come.
"""

from __future__ import annotations

from rlpanel.recording.output_dir import folder_from_environment
from rlpanel.recording.record import Recording, record
from rlpanel.recording.writer.recording_options import Options
from rlpanel.recording.writer.writer import RolloutWriter

__all__ = ["Options", "Recording", "RolloutWriter", "folder_from_environment", "record"]
