"""What the checker needs of the machine that it runs on."""
