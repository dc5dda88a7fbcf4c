"""Record OpenRLHF: in the process that runs its PPOTrainer, each experience maker is hooked as it is made."""

from openrlhf.trainer.ppo_utils import experience_maker

from rlpanel.recording.openrlhf import record_experiences


class Recorded(experience_maker.RemoteExperienceMaker):
    """The experience maker, recorded."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.recording = record_experiences(self, "runs/exp1")


experience_maker.RemoteExperienceMaker = Recorded  # before openrlhf.trainer.ppo_trainer is imported
