"""Long beginnings that many prompts share are found, up to the end of a line or sentence."""

from __future__ import annotations

from rlpanel.texts.prompt_parts import MIN_IN_CELLS, shared_beginnings

TASK = "Solve the problem step by step, and write the final answer between the tags <answer> and </answer>.\n"
OTHER = "Write a function in Python that passes the given tests. Answer with a single block of code. Task: "


def test_a_beginning_ends_with_a_line() -> None:
    assert shared_beginnings([f"{TASK}What is {n} + 1?" for n in range(4)]) == (TASK,)


def test_without_a_line_it_ends_with_a_sentence() -> None:
    sentence = TASK.replace("\n", " ")
    assert shared_beginnings([f"{sentence}What is {n} + 1?" for n in range(4)]) == (sentence,)


def test_without_both_nothing_is_cut_in_the_middle_of_a_sentence() -> None:
    words = "word " * 40
    assert shared_beginnings([f"{words}{n}" for n in range(4)]) == ()


def test_a_short_beginning_or_one_of_few_prompts_does_not_count() -> None:
    assert shared_beginnings([f"What is this?\n{n}" for n in range(9)]) == ()
    assert shared_beginnings([f"{TASK}{n}" for n in range(2)]) == ()
    assert shared_beginnings([f"{TASK}{n}" for n in range(3)] + [f"{n} else" for n in range(10)]) == ()


def test_a_short_beginning_counts_for_cells() -> None:
    prompts = [f"Write a line that rhymes with: the river {n}" for n in range(4)]
    assert shared_beginnings(prompts, MIN_IN_CELLS) == ("Write a line that rhymes with: ",)


def test_the_samples_of_one_group_share_their_whole_prompt_which_says_nothing() -> None:
    assert shared_beginnings([f"{TASK}What is 1 + 1?"] * 8) == ()


def test_each_data_set_has_its_own_beginning_and_an_odd_prompt_hides_none() -> None:
    prompts = [f"{TASK}{n}" for n in range(4)] + [f"{OTHER}{n}" for n in range(4)] + ["odd"]
    assert shared_beginnings(prompts) == (TASK, OTHER)
