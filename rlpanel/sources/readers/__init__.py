"""Read new bytes of growing files, split them into lines and parse the lines into records."""
