"""The rollout writer: encodes rows, queues them and appends them to the rank's file."""
