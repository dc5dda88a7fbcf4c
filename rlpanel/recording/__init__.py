"""Records rollouts inside the training process, without blocking or breaking training.

Importing it needs only the standard library, so ``pip install --no-deps .`` is enough on a training
node. It imports no trainer package: tensors, tokenizers and trainers are duck-typed.
"""

from __future__ import annotations

from rlpanel.recording.output_folder import folder_from_environment
from rlpanel.recording.record import Recording, record
from rlpanel.recording.writer.recording_options import Options
from rlpanel.recording.writer.writer import RolloutWriter

__all__ = ["Options", "Recording", "RolloutWriter", "folder_from_environment", "record"]
