"""From measured runs to a calibration of the estimator.

``reading`` recognises a result and has its reader turn it into a ``Measurement``; ``rules`` refuses what must
not calibrate; ``entry`` compares it with the prediction and writes the catalog entry.
"""
