"""The training behind the demo's run of an agent: its tool, its lessons and its reward."""

from __future__ import annotations

import os
import subprocess
from textwrap import dedent

from tests.train.conftest import QUIET, ROOT, TRAIN

SCRIPT = dedent(
    """
    import random
    from tests.train import calculator as made

    tool = (counting := made.Calculator()).tool()
    assert tool(2, 3) == 5
    counting.failing = 1.0
    try:
        tool(2, 3)
    except RuntimeError as error:
        assert "unavailable" in str(error)
    else:
        raise AssertionError("the tool did not fail")

    tokens = made.chat_tokenizer(tool)
    talk = [m for m in made.example(random.Random(5))]
    assert talk[0]["role"] == "user" and talk[-1]["content"].startswith("It is ")
    text = tokens.apply_chat_template(talk, tools=[tool], tokenize=False)
    ids = tokens(text, add_special_tokens=False).input_ids
    assert tokens.decode(ids) == text
    assert tokens.convert_ids_to_tokens(ids).count("<|im_start|>") == text.count("<|im_start|>")

    batch = next(made.lessons(tokens, tool))
    learnt = batch["labels"] != -100
    assert learnt.any(axis=1).all() and not learnt.all()
    assert (batch["labels"][learnt] == batch["input_ids"][learnt]).all()
    assert tokens.decode(batch["labels"][0][learnt[0]]).startswith("<|im_start|>user")

    said = lambda text: [{"role": "assistant", "content": text}]
    rewards = made.score_sum([said("It is 5."), said("It is 6."), said("Five")], answer=["5"] * 3)
    assert rewards == [1.0, 0.1, 0.0]
    row = made.sums(4)[0]
    a, b = row["prompt"][0]["content"].rstrip("?").split("+")
    assert int(a) + int(b) == int(row["answer"])
    print("done")
    """
)


def test_the_tool_the_lessons_and_the_reward_fit_together() -> None:
    done = subprocess.run(
        [str(TRAIN / "bin" / "python"), "-c", SCRIPT],
        cwd=ROOT,
        env=os.environ | QUIET | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout.split()[-1:]) == (0, ["done"]), done.stderr[-3000:]
