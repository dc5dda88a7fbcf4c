"""The page for users of RLLoggingBoard: its example has the numbers that its tables show."""

from __future__ import annotations

import json
import re
from math import exp
from pathlib import Path
from statistics import mean

import pytest

import rlpanel
from docs.generate import FOLDER
from rlpanel.display_settings import Display

PAGE = (FOLDER / "from-rlloggingboard.md").read_text("utf-8")
LINE = re.search(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
ROWS = {
    name: [float(cell) for cell in cells.split("|")]
    for name, cells in re.findall(r"^\| (RLLoggingBoard, .*?|rlpanel, .*?) \| (.*) \|$", PAGE, re.MULTILINE)
}


def test_the_example_has_the_numbers_of_the_page(tmp_path: Path) -> None:
    assert LINE
    line = json.loads(LINE[1])
    (tmp_path / "data.jsonl").write_text(json.dumps(line) + "\n")
    d = [a - b for a, b in zip(line["logprobs"], line["ref_logprobs"], strict=True)]
    theirs = [exp(x) - 1 - x for x in d]
    ours = [exp(-x) - 1 + x for x in d]
    expected = {
        "RLLoggingBoard, default (*d*)": d,
        "RLLoggingBoard, *Use LogP as KL* off": theirs,
        "rlpanel, `kl_rllb_mean`": theirs,
        "rlpanel, `kl_k3_mean`": ours,
        "rlpanel, `log_ratio_mean`": d,
    }
    assert ROWS.keys() == expected.keys()
    for name, tokens in expected.items():
        assert ROWS[name] == pytest.approx([*tokens, mean(tokens)], abs=5.1e-4), name
    with rlpanel.open_run(tmp_path, follow=False) as run:
        (sample,) = run.samples().to_dict("records")
    for name in ("kl_rllb_mean", "kl_k3_mean", "log_ratio_mean"):
        assert sample[name] == pytest.approx(ROWS[f"rlpanel, `{name}`"][2], abs=5.1e-4)


def test_the_settings_that_the_page_names_exist() -> None:
    labels = {Display.param[name].label for name in Display.param}
    assert {"Max samples a step", "KL estimator", "Variance scaling", "Zero shift"} <= labels
    assert {"k1 (log-ratio)", "RLLoggingBoard"} <= {*Display.param.kl_estimator.names}
