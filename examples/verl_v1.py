"""Records verl's V1 trainers: let verl import this module in the process that trains.

VERL_USE_EXTERNAL_MODULES=verl_v1 python -m verl.trainer.main_ppo trainer.rollout_data_dir=runs/exp1/dump ...
"""

from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY

from rlpanel.recording.verl import install

install(TRAINER_REGISTRY, dir="runs/exp1")
