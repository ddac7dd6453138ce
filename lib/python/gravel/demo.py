"""A job that shows what Gravel does: an image that is distributed over all PEs, to which all PEs add points.

    python -m gravel.demo                       one PE
    ucx-run -n 4 python -m gravel.demo          four PEs
    ucx-run -n 4 --nodes 2 python -m gravel.demo --picture points.png

Each PE iterates Peter de Jong's map from random points, and adds 1 to the pixel of each point. The pixels are in a
distributed array: rows of the image lie at different PEs. At the end the demo checks the sum."""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

import gravel as gr

PARAMETERS = (1.4, -2.3, 2.4, -2.1)


def points_of(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, b, c, d = PARAMETERS
    return np.sin(a * y) - np.cos(b * x), np.sin(c * x) - np.cos(d * y)


def pixels_of(x: np.ndarray, y: np.ndarray, side: int) -> np.ndarray:
    """The number of the pixel of each point: points have coordinates from -2 to 2."""
    column = np.minimum(((x + 2) * (side / 4)).astype(np.int64), side - 1)
    row = np.minimum(((y + 2) * (side / 4)).astype(np.int64), side - 1)
    return row * side + column


def write_picture(path: str, image: np.ndarray, n_pes: int) -> str:
    """Draws the image. Returns what to say about it."""
    try:
        import matplotlib  # type: ignore[import-not-found,unused-ignore]

        matplotlib.use("Agg")
        from matplotlib import pyplot  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return "no picture: matplotlib is not installed (pip install matplotlib)"
    figure, axes = pyplot.subplots(figsize=(7, 7.4))
    axes.imshow(np.log1p(image), cmap="magma", origin="lower")
    for pe in range(1, n_pes):
        axes.axhline(pe * len(image) / n_pes, color="white", linewidth=0.5, alpha=0.6)
    axes.set_title(
        f"{int(image.sum()):,} points, added by {n_pes} PEs to an array that is distributed over them", fontsize=9
    )
    axes.set_xlabel("white lines: where the part of a PE ends" if n_pes > 1 else "one PE")
    axes.set_xticks([])
    axes.set_yticks([])
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    return f"picture: {path}"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m gravel.demo", description="Random adds to a distributed array, with a check"
    )
    parser.add_argument("--points", type=int, default=1 << 20, help="points that each PE adds (default: %(default)s)")
    parser.add_argument("--side", type=int, default=512, help="width and height of the image (default: %(default)s)")
    parser.add_argument("--picture", default="", metavar="FILE", help="draw the image with matplotlib")
    options = parser.parse_args()
    if options.points < 1 or not 1 <= options.side <= 8192:
        parser.error("--points is at least 1, --side 1 to 8192")

    gr.init()
    me, n_pes = gr.my_pe(), gr.n_pes()
    say = print if me == 0 else lambda *_, **__: None
    say(
        f"Gravel {gr.info()['gravel']}: {n_pes} PE(s) on {gr.n_nodes()} node(s), backend {gr.info()['backend']}",
        flush=True,
    )

    image = gr.zeros(options.side**2, dtype="u8")
    batch = min(options.points, 1 << 16)
    random = np.random.default_rng(me)
    x, y = random.uniform(-2, 2, batch), random.uniform(-2, 2, batch)
    for _ in range(20):
        x, y = points_of(x, y)
    left, seconds, shows = options.points, 0.0, me == 0 and sys.stderr.isatty()
    while left > 0:
        x, y = points_of(x, y)
        index = pixels_of(x, y, options.side)[:left]
        begin = time.perf_counter()
        gr.scatter_add(image, index, 1)
        seconds += time.perf_counter() - begin
        left -= len(index)
        if shows:
            done = 1 - left / options.points
            print(
                f"\r[{'#' * int(40 * done):40}] {100 * done:3.0f} %",
                end="" if left else "\n",
                file=sys.stderr,
                flush=True,
            )
    begin = time.perf_counter()
    gr.barrier()
    seconds = gr.max_all(seconds + time.perf_counter() - begin)

    expected = options.points * n_pes
    total = int(gr.sum_all(int(image.local.sum())))
    say(f"{total} of {expected} points are in the image: {'right' if total == expected else 'WRONG'}")
    say(f"{expected / seconds / 1e6:.1f} million adds/s ({seconds:.3f} s)")
    brightest = int(gr.max_all(int(image.local.max(initial=0))))
    stats = gr.stats()
    say(f"the brightest pixel has {brightest} points")
    say(
        f"network: {100 * stats['remote_access_frequency']:.0f} % of the adds went to other PEs, "
        f"in {stats['packets']} packets of {stats['average_packet_bytes']:.0f} bytes on average"
    )
    seen = gr.gather(image, np.arange(image.n)) if me == 0 else None
    gr.barrier()
    if seen is not None and int(seen.sum()) != expected:
        total = -1
        say("gather: WRONG")
    if options.picture and seen is not None:
        say(write_picture(options.picture, seen.reshape(options.side, options.side), n_pes))
    right = gr.min_all(int(total == expected))
    gr.finalize()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
