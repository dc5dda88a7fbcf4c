"""Records OpenRLHF: installs a hook on each experience maker, in the process that runs its PPOTrainer."""

from openrlhf.trainer.ppo_utils import experience_maker

from rlpanel.recording.openrlhf import record_experiences


class Recorded(experience_maker.RemoteExperienceMaker):
    """An experience maker whose batches are recorded."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.recording = record_experiences(self, "runs/exp1")


experience_maker.RemoteExperienceMaker = Recorded  # must run before openrlhf.trainer.ppo_trainer is imported
