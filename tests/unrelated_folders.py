"""Writes folders of JSON, CSV and parquet that hold no rollouts, in the shapes of files that everybody has.

The shapes are those of well-known formats: packages, notebooks, annotations, settings, exports of chats, data
sets for training, tokenizers, maps, translations, and metrics without samples.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Files = dict[str, Any]
WORDS = (
    *("harbor", "lantern", "violet", "meadow", "copper", "thunder", "willow", "quartz", "saddle", "ember"),
    *("pocket", "glacier", "timber", "walnut"),
)

#: Folders made of each kind.
EACH = 5


KINDS: dict[str, Callable[[int], Files]] = {}


class _Lines(list):
    """Documents that are written one a line."""


def kind(make: Callable[[int], Files]) -> Callable[[int], Files]:
    """Add a kind of folder to the list of all."""
    KINDS[make.__name__] = make
    return make


def words(count: int, seed: int) -> str:
    """Return some words, the same for the same seed."""
    return " ".join(WORDS[(seed * 7 + at * 5 + at * at) % len(WORDS)] for at in range(count))


@kind
def npm(n: int) -> Files:
    package = {"name": words(1, n), "version": f"1.{n}.0", "scripts": {"build": "tsc", "test": "jest"}}
    package |= {"dependencies": {f"{words(1, at)}-{at}": f"^{at}.0.0" for at in range(6)}}
    lock = {"name": words(1, n), "lockfileVersion": 3, "requires": True}
    lock |= {"packages": {f"node_modules/{words(1, at)}{at}": {"version": "1.0.0"} for at in range(30)}}
    return {
        "package.json": package,
        "package-lock.json": lock,
        "tsconfig.json": {"compilerOptions": {"strict": True}},
    }


@kind
def notebook(n: int) -> Files:
    cells = [
        {"cell_type": "code", "execution_count": at, "metadata": {}, "outputs": [], "source": [words(5, at)]}
        for at in range(8 + n)
    ]
    return {
        f"analysis_{n}.ipynb": {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5},
        "checkpoint.json": {"cells": cells, "metadata": {}, "nbformat": 4},
    }


@kind
def coco(n: int) -> Files:
    return {
        "annotations/instances_val2017.json": {
            "info": {"year": 2017},
            "images": [
                {"id": at, "file_name": f"{at:012}.jpg", "height": 480, "width": 640} for at in range(20)
            ],
            "annotations": [
                {"id": at, "image_id": at, "category_id": n, "bbox": [1.0, 2.0, 3.0, 4.0], "score": 0.9}
                for at in range(40)
            ],
            "categories": [{"id": n, "name": words(1, n)}],
        }
    }


@kind
def labels(n: int) -> Files:
    return {
        "via_project.json": {
            f"{at}.jpg": {"filename": f"{at}.jpg", "regions": [{"shape": "rect", "label": words(1, at + n)}]}
            for at in range(15)
        },
        "labels.csv": [["image", "label", "score"], *([f"{at}.jpg", words(1, at), 0.5] for at in range(20))],
    }


@kind
def requests_of_a_server(n: int) -> Files:
    spans = [
        {"id": f"s{at}", "parent_id": f"s{at - 1}" if at else None, "type": "http", "name": words(2, at)}
        | {"input": f"/{words(1, at)}", "output": "200", "duration_ms": at}
        for at in range(8)
    ]
    menu = {"name": words(1, n), "input": "x", "output": "y", "children": []}
    tree = {"name": words(1, n), "input": "x", "output": "y", "children": [menu, menu]}
    return {
        "traces.jsonl": _Lines({"trace_id": f"t{at}", "spans": spans} for at in range(6)),
        "tree.json": tree,
    }


@kind
def steps_of_a_workflow(n: int) -> Files:
    steps = [{"name": words(2, at), "run": words(4, at), "status": "completed"} for at in range(5)]
    return {
        "jobs.jsonl": _Lines(
            {"id": at, "name": words(2, at + n), "steps": steps, "success": bool(at % 2)} for at in range(8)
        ),
        "recipe.json": {"title": words(3, n), "steps": [{"text": words(8, at)} for at in range(6)]},
    }


@kind
def choices_of_two(n: int) -> Files:
    rows = [
        {"goal": words(6, at), "sol1": words(9, at + 1), "sol2": words(9, at + 2), "label": at % 2}
        for at in range(9)
    ]
    asked = [
        {"question": words(6, at), "answer_a": words(5, at), "answer_b": words(5, at + n), "answer_c": "x"}
        | {"correct_answer": "abc"[at % 3]}
        for at in range(9)
    ]
    return {"valid.jsonl": _Lines(rows), "quiz.json": asked}


@kind
def tables_without_names(n: int) -> Files:
    sensors = [[at, 20.5 + at, 0.25 * n, "ok"] for at in range(30)]
    reviews = [[at, words(9, at + n), at % 2] for at in range(30)]
    return {"sensors.csv": sensors, "reviews.csv": reviews}


@kind
def lists_in_cells(n: int) -> Files:
    rows = [
        [words(2, at), str([words(1, at), words(1, n)]), str({"price": at, "stock": n})] for at in range(20)
    ]
    return {"products.csv": [["name", "tags", "offer"], *rows]}


@kind
def geojson(n: int) -> Files:
    features = [
        {
            "type": "Feature",
            "properties": {"name": words(2, at), "score": at},
            "geometry": {"type": "Point", "coordinates": [at, n]},
        }
        for at in range(20)
    ]
    return {"cities.geojson": {"type": "FeatureCollection", "features": features}, "map.json": features}


@kind
def openapi(n: int) -> Files:
    paths = {
        f"/{words(1, at)}/{at}": {"get": {"responses": {"200": {"description": "ok"}}}} for at in range(12)
    }
    return {
        "openapi.json": {"openapi": "3.1.0", "info": {"title": words(2, n), "version": "1"}, "paths": paths}
    }


@kind
def json_schema(n: int) -> Files:
    properties = {word: {"type": "string", "description": words(4, n)} for word in WORDS}
    return {
        f"schema{n}.json": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "properties": properties,
        }
    }


@kind
def translations(n: int) -> Files:
    return {
        f"locales/{language}.json": {f"page.{word}.title": words(4, n) for word in WORDS}
        for language in ("en", "de", "zh-CN")
    }


@kind
def tokenizer(n: int) -> Files:
    vocabulary = {f"tok{at}": at for at in range(200 + n)}
    return {
        "tokenizer.json": {
            "version": "1.0",
            "added_tokens": [],
            "model": {"type": "BPE", "vocab": vocabulary},
        },
        "vocab.json": vocabulary,
        "tokenizer_config.json": {
            "chat_template": "{% for message in messages %}{{ message.role }}{% endfor %}"
        },
        "special_tokens_map.json": {"eos_token": "</s>"},
    }


@kind
def model(n: int) -> Files:
    weights = {f"layers.{at}.weight": f"model-0000{at % 3}-of-00003.safetensors" for at in range(60)}
    return {
        "config.json": {
            "architectures": ["LlamaForCausalLM"],
            "hidden_size": 2048 + n,
            "model_type": "llama",
        },
        "generation_config.json": {"temperature": 0.6, "max_new_tokens": 512},
        "model.safetensors.index.json": {"metadata": {"total_size": 10**10}, "weight_map": weights},
    }


@kind
def trainer_state(n: int) -> Files:
    history = [
        {
            "epoch": at / 10,
            "step": at,
            "loss": 1.0 / at,
            "reward": 0.1 * at,
            "learning_rate": 1e-6,
            "grad_norm": 1.0,
        }
        for at in range(1, 20)
    ]
    return {
        f"checkpoint-{20 + n}/trainer_state.json": {
            "global_step": 20,
            "log_history": history,
            "max_steps": 100,
        },
        f"checkpoint-{20 + n}/training_args.json": {"per_device_train_batch_size": 8},
    }


@kind
def metrics_lines(n: int) -> Files:
    lines = [
        {"step": at, "reward": 0.5, "reward_std": 0.1, "kl": 0.01, "loss": 0.3, "entropy": 0.5, "score": n}
        for at in range(30)
    ]
    return {
        "metrics.jsonl": _Lines(lines),
        "progress.csv": [["step", "reward", "loss"], [1, 0.5, 0.3], [2, 0.6, 0.2]],
    }


@kind
def nested_metrics(n: int) -> Files:
    lines = [{"step": at, "data": {"actor/kl": 0.1, "critic/score/mean": 0.2 + n}} for at in range(20)]
    return {"verl_file_logger.jsonl": _Lines(lines)}


@kind
def chat_export(n: int) -> Files:
    mapping = {
        str(at): {
            "message": {
                "author": {"role": "user"},
                "content": {"content_type": "text", "parts": [words(5, at)]},
            },
            "parent": str(at - 1),
            "children": [str(at + 1)],
        }
        for at in range(10)
    }
    return {
        "conversations.json": [
            {"title": words(3, at + n), "create_time": 1.0, "mapping": mapping} for at in range(3)
        ]
    }


@kind
def team_chat(n: int) -> Files:
    return {
        f"general/2026-07-0{n + 1}.json": [
            {"type": "message", "user": f"U{at % 3}", "text": words(6, at), "ts": f"17200000{at:02}.0001"}
            for at in range(15)
        ],
        "users.json": [{"id": f"U{at}", "name": words(1, at)} for at in range(3)],
    }


@kind
def messenger(n: int) -> Files:
    return {
        "inbox/message_1.json": {
            "participants": [{"name": words(1, n)}, {"name": words(1, n + 1)}],
            "messages": [
                {"sender_name": words(1, n), "timestamp_ms": 1720000000000 + at, "content": words(6, at)}
                for at in range(15)
            ],
        }
    }


@kind
def sft_messages(n: int) -> Files:
    lines = [
        {
            "messages": [
                {"role": "user", "content": words(6, at)},
                {"role": "assistant", "content": words(9, at + n)},
            ]
        }
        for at in range(20)
    ]
    return {"sft_train.jsonl": _Lines(lines), "sft_val.jsonl": _Lines(lines[:5])}


@kind
def sharegpt_data(n: int) -> Files:
    return {
        "sharegpt_clean.json": [
            {
                "id": f"identity_{at}",
                "conversations": [
                    {"from": "human", "value": words(5, at)},
                    {"from": "gpt", "value": words(8, at + n)},
                ],
            }
            for at in range(20)
        ]
    }


@kind
def alpaca_data(n: int) -> Files:
    return {
        "alpaca_data.json": [
            {"instruction": words(6, at), "input": "", "output": words(9, at + n)} for at in range(20)
        ]
    }


@kind
def preferences(n: int) -> Files:
    lines = [
        {"prompt": words(6, at), "chosen": words(9, at + n), "rejected": words(9, at + n + 1)}
        for at in range(20)
    ]
    return {"dpo_train.jsonl": _Lines(lines)}


@kind
def questions(n: int) -> Files:
    lines = [{"question": words(9, at), "answer": f"{words(5, at + n)}\n#### {at}"} for at in range(20)]
    return {"gsm8k/test.jsonl": _Lines(lines), "gsm8k/train.jsonl": _Lines(lines)}


@kind
def problems(n: int) -> Files:
    lines = [
        {
            "task_id": f"HumanEval/{at}",
            "prompt": f"def f{at}():\n    ",
            "entry_point": f"f{at}",
            "canonical_solution": f"    return {n}\n",
            "test": "assert True",
        }
        for at in range(20)
    ]
    return {"HumanEval.jsonl": _Lines(lines), "HumanEval.jsonl.gz": _Lines(lines)}


@kind
def choices(n: int) -> Files:
    rows = [[words(6, at), *(words(1, at + k) for k in range(4)), "ABCD"[(at + n) % 4]] for at in range(20)]
    return {"mmlu/anatomy_test.csv": [["question", "A", "B", "C", "D", "answer"], *rows]}


@kind
def eval_inputs(n: int) -> Files:
    lines = [
        {
            "input": [{"role": "system", "content": words(4, n)}, {"role": "user", "content": words(6, at)}],
            "ideal": "4",
        }
        for at in range(15)
    ]
    return {"registry/data/sums/samples.jsonl": _Lines(lines)}


@kind
def rl_prompts(n: int) -> Files:
    rows = [
        {
            "data_source": "gsm8k",
            "prompt": [{"role": "user", "content": words(6, at)}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": str(at + n)},
            "extra_info": {"index": at, "split": "train"},
        }
        for at in range(15)
    ]
    return {"train.parquet": rows, "test.parquet": rows[:4]}


@kind
def retrieval(n: int) -> Files:
    return {
        "corpus.jsonl": _Lines(
            [{"_id": str(at), "title": words(2, at), "text": words(12, at)} for at in range(20)]
        ),
        "queries.jsonl": _Lines([{"_id": str(at), "text": words(5, at + n)} for at in range(10)]),
        "qrels/test.tsv": [["query-id", "corpus-id", "score"], *([at, at, 1] for at in range(10))],
    }


@kind
def squad(n: int) -> Files:
    answers = [{"text": words(1, n), "answer_start": 4}]
    paragraphs = [
        {"context": words(30, at), "qas": [{"id": str(at), "question": words(5, at), "answers": answers}]}
        for at in range(8)
    ]
    return {"dev-v2.0.json": {"version": "v2.0", "data": [{"title": words(1, n), "paragraphs": paragraphs}]}}


@kind
def reviews(n: int) -> Files:
    lines = [
        {
            "reviewerID": f"A{at}",
            "asin": "B00",
            "reviewText": words(15, at),
            "overall": 4.0 + at % 2,
            "summary": words(3, n),
        }
        for at in range(20)
    ]
    return {
        "reviews_Electronics.json": _Lines(lines),
        "reviews.csv": [["id", "stars", "text"], [1, 5, words(9, n)]],
    }


@kind
def tweets(n: int) -> Files:
    return {
        "tweets.csv": [
            ["id", "text", "sentiment", "created_at"],
            *([at, words(8, at), at % 2, "2026"] for at in range(30)),
        ],
        "tweet.json": {"data": [{"id": str(at), "text": words(8, at + n), "lang": "en"} for at in range(10)]},
    }


@kind
def table(n: int) -> Files:
    rows = [[at, 5.1 + at / 10, 3.5, 1.4, words(1, n)] for at in range(30)]
    return {"iris.csv": [["id", "sepal_length", "sepal_width", "petal_length", "species"], *rows]}


@kind
def sales(n: int) -> Files:
    rows = [{"order_id": at, "customer": words(1, at), "amount": at * 1.5, "quantity": n} for at in range(40)]
    return {"sales.parquet": rows, "sales.csv": [list(rows[0]), *(list(row.values()) for row in rows)]}


@kind
def events(n: int) -> Files:
    lines = [
        {
            "timestamp": f"2026-07-01T00:00:{at:02}Z",
            "level": "INFO",
            "message": words(7, at),
            "logger": words(1, n),
        }
        for at in range(30)
    ]
    return {"app.log.jsonl": _Lines(lines), "events.ndjson": _Lines(lines)}


@kind
def access_log(n: int) -> Files:
    lines = [
        {"ip": f"10.0.0.{at}", "path": f"/{words(1, at)}", "status": 200, "response": 200 + n}
        for at in range(30)
    ]
    return {"access.jsonl": _Lines(lines)}


@kind
def bench(n: int) -> Files:
    benchmarks = [{"name": words(2, at), "stats": {"mean": 0.1, "rounds": 5}} for at in range(10)]
    return {
        ".benchmarks/0001.json": {"machine_info": {"node": words(1, n)}, "benchmarks": benchmarks},
        "lighthouse.json": {"categories": {"performance": {"score": 0.9}}, "audits": {}},
    }


@kind
def coverage(n: int) -> Files:
    return {
        "coverage.json": {
            "meta": {"version": "7"},
            "files": {f"a{at}.py": {"summary": {"covered": n}} for at in range(10)},
        },
        "report.json": {
            "tests": [{"nodeid": f"t::{at}", "outcome": "passed", "duration": 0.1} for at in range(20)]
        },
    }


@kind
def eval_summary(n: int) -> Files:
    results = {f"task{at}": {"acc,none": 0.5, "acc_stderr,none": 0.01} for at in range(10)}
    return {
        "results_2026-07-01T12-00-00.json": {
            "results": results,
            "config": {"model": "hf"},
            "n-shot": {"task1": n},
        },
        "all_results.json": {"eval_loss": 1.2, "epoch": 3.0},
        "leaderboard.csv": [["model", "win_rate", "avg_length"], [words(1, n), 95.2, 2049]],
    }


@kind
def aggregates(n: int) -> Files:
    lines = [
        {"model": "m", "dataset": words(1, at), "num_variants": n, "accuracy": 0.1 * (at % 9)}
        for at in range(9)
    ]
    return {"results.jsonl": _Lines(lines)}


@kind
def sweep(n: int) -> Files:
    trials = [{"trial": at, "params": {"lr": 1e-5, "beta": 0.04}, "value": 0.5 + n} for at in range(20)]
    return {
        "optuna_trials.json": trials,
        "hparams.json": {"lr": 1e-6, "num_generations": 8, "reward_weights": [1.0]},
    }


@kind
def lock(n: int) -> Files:
    return {
        "Pipfile.lock": {
            "_meta": {"hash": {}},
            "default": {words(1, at): {"version": f"=={n}"} for at in range(9)},
        },
        "composer.lock": {"packages": [{"name": words(1, at), "version": "1"} for at in range(9)]},
        "renovate.json": {"extends": ["config:base"]},
    }


@kind
def editor(n: int) -> Files:
    return {
        ".vscode/settings.json": {"editor.tabSize": 2 + n},
        ".vscode/launch.json": {
            "version": "0.2.0",
            "configurations": [{"name": words(1, n), "type": "python"}],
        },
        "keybindings.json": [{"key": "ctrl+k", "command": words(1, at)} for at in range(5)],
    }


@kind
def cards(n: int) -> Files:
    cards = [
        {"id": at, "front": words(4, at), "back": words(4, at + n), "ease": 2.5, "interval": at}
        for at in range(20)
    ]
    return {"deck.json": {"name": words(1, n), "cards": cards}, "quiz.json": cards}


@kind
def recipes(n: int) -> Files:
    recipes = [
        {"title": words(3, at), "ingredients": [words(1, at)], "steps": [words(6, n)], "rating": 4.5}
        for at in range(12)
    ]
    return {"recipes.json": recipes}


@kind
def music(n: int) -> Files:
    tracks = [
        {"track": words(2, at), "artist": words(1, n), "ms_played": at * 1000, "score": 10}
        for at in range(20)
    ]
    return {"StreamingHistory0.json": tracks, "library.json": {"tracks": tracks}}


@kind
def sensors(n: int) -> Files:
    rows = [
        {"time": at, "x": at * 0.1, "y": 0.2, "action": n, "reward": -0.1, "done": False} for at in range(40)
    ]
    return {"flight.parquet": rows, "trajectory.csv": [list(rows[0]), *(list(row.values()) for row in rows)]}


def _bytes(name: str, content: Any) -> bytes:
    if name.endswith(".parquet"):
        import pyarrow
        import pyarrow.parquet

        buffer = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(content), buffer)
        return buffer.getvalue()
    if name.endswith((".csv", ".tsv")):
        text = io.StringIO()
        csv.writer(text, delimiter="\t" if name.endswith(".tsv") else ",").writerows(content)
        return text.getvalue().encode()
    if isinstance(content, _Lines):
        data = "".join(json.dumps(line) + "\n" for line in content).encode()
        return gzip.compress(data, mtime=0) if name.endswith(".gz") else data
    return json.dumps(content, indent=2).encode()


def write(root: Path) -> list[Path]:
    """Write the folders below a root: each kind several times, in other places and with other contents."""
    folders = []
    for name_of_kind, make in KINDS.items():
        for number in range(EACH):
            folder = root / f"{name_of_kind}-{number}"
            inner = folder / ("", "data", "data/raw", "outputs/2026", "src")[number]
            for name, content in make(number).items():
                path = inner / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(_bytes(name, content))
            folders.append(folder)
    return folders
