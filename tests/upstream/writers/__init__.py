"""Frameworks' own writers, executed on small made-up batches that have what makes a batch hard to read.

An evaluation at the step of training, samples that were aborted, masked or failed, two data sets, several
rows of an episode, a resumed run: where a trainer has them, its batch does.
"""
