"""The order of python-rank, and its configuration."""

import json

ORDERS = ("youngest", "oldest")


def parse_config(raw):
    """Returns who goes first. What is wrong with a configuration is a ValueError."""
    config = json.loads(raw) if raw else {}
    if not isinstance(config, dict):
        raise ValueError("config: want an object")
    wrong = [f"{field}: unknown field, want first" for field in sorted(config.keys() - {"first"})]
    first = config.get("first", ORDERS[0])
    if first not in ORDERS:
        wrong.append(f"first: {first!r}, want one of {', '.join(ORDERS)}")
    if wrong:
        raise ValueError("; ".join(wrong))
    return first


def rank(candidates, first):
    """Returns uids and reasons, the first to go first. Pods that started at the same time
    keep their order: sorted is stable in both directions."""
    order = sorted(candidates, key=lambda c: c.pod.start_time_unix_nanos, reverse=first == "youngest")
    return [(c.pod.uid, f"the {first}, started at {c.pod.start_time_unix_nanos // 10**9}") for c in order]
