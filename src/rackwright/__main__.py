"""``python -m rackwright`` is the ``rackwright`` command."""

from rackwright.cli import main

main()
