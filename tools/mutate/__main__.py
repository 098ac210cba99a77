"""``python -m tools.mutate``: damage every recorded output and tell what a parser makes of it.

Exit 0: every rule held. 1: one was broken; the first texts are written to ``--keep``.
"""

from __future__ import annotations

import argparse
import sys
from itertools import chain
from pathlib import Path

from tools.mutate.campaign import SAMPLES, Tally, recordings, run, samples


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutate", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="damaged outputs to read")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", help="only outputs of this kind")
    parser.add_argument("--samples", type=Path, default=SAMPLES, help="a directory of real outputs")
    parser.add_argument("--no-samples", action="store_true", help="only the recordings of this repository")
    parser.add_argument("--keep", type=Path, help="where texts that broke a rule are written")
    options = parser.parse_args(arguments)
    texts = chain(recordings(), () if options.no_samples else samples(options.samples))
    chosen = [text for text in texts if options.kind in (None, text.kind)]
    if not chosen:
        sys.stderr.write("no output to damage: --kind or --samples leaves none\n")
        return 2
    tally = run(chosen, count=options.count, seed=options.seed)
    sys.stdout.write(summary(tally))
    if options.keep and tally.broken:
        options.keep.mkdir(parents=True, exist_ok=True)
        for number, broken in enumerate(tally.broken[:200]):
            path = options.keep / f"{number:03d}-{broken.kind}.txt"
            path.write_text(broken.text, encoding="utf-8", errors="surrogatepass")
    return 1 if tally.broken else 0


def summary(tally: Tally) -> str:
    lines = [
        f"outputs read   {tally.outputs:,} from {tally.texts} texts of {len(tally.by_kind)} kinds",
        f"CPU            {tally.seconds:.0f} s",
        *(f"  {count:>9,}  {how}" for how, count in tally.by_damage.most_common()),
        "made of them",
        *(f"  {count:>9,}  {word}" for word, count in tally.by_verdict.most_common()),
        f"rules broken   {len(tally.broken)}",
    ]
    lines += [f"  {b.rule}: {b.name} ({b.kind}), {b.how}: {b.detail[:160]}" for b in tally.broken[:40]]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
