"""One module a format of results; ``rackwright.calibration.reading`` finds them by looking here."""
