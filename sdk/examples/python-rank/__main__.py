"""An evictd plugin that ranks pods for memory pressure: the youngest goes first."""

import evictd
import rank

VERSION = "1.0.0"
CAPABILITY_RANK = 4  # of the protocol's enum Capability

first = rank.parse_config(b"")


def describe(_request):
    return evictd.messages["DescribeResponse"](
        name="python-rank", version=VERSION, capabilities=[CAPABILITY_RANK], configurable=True,
        signals=[{"signal": "memory.available"}, {"signal": "allocatableMemory.available"}])


def configure(request):
    """Checks first and changes last: a configuration that is refused leaves the former one
    in force."""
    global first
    try:
        first = rank.parse_config(request.config)
    except ValueError as wrong:
        raise evictd.Refused(str(wrong)) from wrong
    evictd.log("info", "configured", first=first)
    return evictd.messages["ConfigureResponse"]()


def rank_pods(request):
    ranking = [{"uid": uid, "reason": reason} for uid, reason in rank.rank(request.candidates, first)]
    return evictd.messages["RankResponse"](ranking=ranking)


evictd.serve(Describe=describe, Configure=configure, Rank=rank_pods)
