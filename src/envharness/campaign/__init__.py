"""What joins rigging, skills and evaluation into one command."""
