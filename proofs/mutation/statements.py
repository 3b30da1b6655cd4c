"""Every condition and assignment of the SQL in the repository's sources, and how each of them is weakened.

A condition is a conjunct of a WHERE, an ON or a HAVING, wherever it stands: in a subquery, a common table, a constant, a
piece that is put together at run time; pieces of one text are weakened together. An assignment is one of an UPDATE's SET or
of an ON DUPLICATE KEY UPDATE. A lock is a FOR UPDATE or a SKIP LOCKED.
"""

import collections
import re

Literal = collections.namedtuple("Literal", "function text")
# What is sought in a statement and what it becomes; `what` names it for a reader.
Mutant = collections.namedtuple("Mutant", "file function what literal weakened")

# Comments come first, so that a quotation mark in one opens no string.
RUST = re.compile(
    r'(?P<comment>//[^\n]*)|r(?P<hashes>#+)"(?P<raw>.*?)"(?P=hashes)|"(?P<plain>(?:[^"\\]|\\.)*)"'
    r"|'(?:[^'\\]|\\.[^']*)'|\bfn (?P<function>\w+)|\bconst (?P<constant>\w+)",
    re.DOTALL,
)
KEYWORD = re.compile(r"\b(SELECT|WHERE|AND|HAVING|UPDATE|DELETE|JOIN|ON|SET)\b")
SQL = re.compile(r"(?P<comment>--[^\n]*|/\*.*?\*/)|'[^']*'|\"[^\"]*\"|[A-Za-z_][\w.]*|\d+|[^\s\w]", re.DOTALL)
# Words that end a list of conditions or assignments.
CLAUSES = {
    "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "FOR", "UNION", "WINDOW", "SET", "FROM", "SELECT", "INSERT", "DELETE",
    "UPDATE", "VALUES", "JOIN", "STRAIGHT_JOIN", "LEFT", "RIGHT", "INNER", "CROSS", "ON", "AS",
}
HEADS = {"WHERE", "ON", "HAVING", "AND"}


def literals(source):
    """The string literals that hold SQL, each with the function or constant it stands in."""
    place = "?"
    for found in RUST.finditer(source.split("#[cfg(test)]")[0]):
        place = found["function"] or found["constant"] or place
        text = found["raw"] if found["raw"] is not None else found["plain"]
        # What sets up a session touches no row.
        if text is not None and KEYWORD.search(text) and not text.startswith("SET SESSION"):
            yield Literal(place, unescaped(text) if found["raw"] is None else text)


def unescaped(text):
    """A plain literal as the compiler reads it: a backslash at the end of a line joins it to the next."""
    return re.sub(r"\\\n\s*", "", text).replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\")


def mutants(file, source):
    """All mutants of a file, and the heads (WHERE, AND, ON, HAVING, SET) that none of them weakens."""
    made, missed = [], []
    for literal in literals(source):
        seen = set()
        for start, end, weakened, head in changes(literal.text):
            seen |= {head, start}
            # An assignment or condition is named with its head, whether it stands right behind it or not.
            word = literal.text[head:].removeprefix("ON DUPLICATE KEY ").split(None, 1)[0]
            sql = " ".join(literal.text[start:end].split())
            what = sql if start == head else f"{word} {sql}"
            changed = literal.text[:start] + weakened + literal.text[end:]
            made.append(Mutant(file, literal.function, what, literal.text, changed))
        missed += [f"{file}\t{literal.function}\t{line}" for line in unseen(literal.text, seen)]
    return numbered(made), missed


def numbered(made):
    """Tells mutants of one name apart: the second is called `… #2`."""
    times = collections.Counter()
    for mutant in made:
        times[mutant[:3]] += 1
        n = times[mutant[:3]]
        yield mutant if n == 1 else mutant._replace(what=f"{mutant.what} #{n}")


def tokens(text):
    """(text, start, end, depth of parentheses) of a statement's words and marks; a parenthesis that closes is inside."""
    depth = 0
    for found in SQL.finditer(text):
        if found["comment"]:
            continue
        yield found[0], found.start(), found.end(), depth
        depth += {"(": 1, ")": -1}.get(found[0], 0)


def changes(text):
    """(start, end, what stands there instead, the head's start) of each weakening of a literal."""
    all_tokens = list(tokens(text))
    is_update = any(token[0] == "UPDATE" for token in all_tokens)
    # Whether the last clause at each depth was one of conditions.
    clause = {}
    for n, (word, start, end, depth) in enumerate(all_tokens):
        before = all_tokens[n - 1][0] if n else None
        following = [token[0] for token in all_tokens[n + 1:n + 3]]
        if word == "FOR" and following[:1] == ["UPDATE"]:
            skips = [token[0] for token in all_tokens[n + 2:n + 4]] == ["SKIP", "LOCKED"]
            yield start, all_tokens[n + (3 if skips else 1)][2], "", start
        elif word == "SKIP" and following[:1] == ["LOCKED"]:
            yield start, all_tokens[n + 1][2], "", start
        elif word == "ON" and following[:1] == ["DUPLICATE"]:
            yield from assignments(text, all_tokens, n + 4, start)
        elif word == "SET" and is_update and before != "CHARACTER":
            yield from assignments(text, all_tokens, n + 1, start)
        # A piece such as " AND j.org_id = " begins in the middle.
        elif word in ("WHERE", "ON", "HAVING") or (word == "AND" and n == 0):
            clause[depth] = True
            yield condition(text, all_tokens, n)
        elif word == "AND" and clause.get(depth) and not between(all_tokens, n):
            yield condition(text, all_tokens, n)
        elif word in CLAUSES and before != "FOR":
            clause[depth] = False


def between(all_tokens, n):
    """Whether this AND belongs to a BETWEEN."""
    depth = all_tokens[n][3]
    for word, _, _, at in reversed(all_tokens[:n]):
        if at == depth and word in ("BETWEEN", *HEADS):
            return word == "BETWEEN"
    return False


def stop(all_tokens, n, ends):
    """The number of the first token from `n` on that ends what began there."""
    depth = all_tokens[n - 1][3]
    for m in range(n, len(all_tokens)):
        word, _, _, at = all_tokens[m]
        if at < depth or (at == depth and (word in ends or word == ")") and not between(all_tokens, m)):
            return m
    return len(all_tokens)


def condition(text, all_tokens, n):
    """The conjunct behind the head `n`, made true."""
    head, end = all_tokens[n][1], all_tokens[n][2]
    m = stop(all_tokens, n + 1, CLAUSES | {"AND"})
    if m == n + 1:
        # The condition is put together from pieces: this is its statement's only one.
        return head, end, f"{all_tokens[n][0]} TRUE OR", head
    first, last = all_tokens[n + 1][1], all_tokens[m - 1][2]
    sql = text[first:last]
    if sql.endswith("IN ("):
        return first, last, "1 IN (1, ", head
    if re.search(r"(=|<|>|LIKE)$", sql):
        # The value follows; whatever it is, its bits with one more are not zero.
        return first, last, "1 |", head
    return first, last, f"(({sql}) OR TRUE)", head


def assignments(text, all_tokens, n, head):
    """Each assignment of the list that begins with token `n`, made to keep the column as it is."""
    end = stop(all_tokens, n, {"WHERE", "ORDER", "LIMIT"})
    while n < end:
        m = min(stop(all_tokens, n, {",", "WHERE", "ORDER", "LIMIT"}), end)
        first, last = all_tokens[n][1], all_tokens[m - 1][2]
        column, value = re.fullmatch(r"(\S+)\s*=\s*(.*)", text[first:last], re.DOTALL).groups()
        yield first, last, f"{column} = IF(FALSE, {value}, {column})", head
        n = m + 1


# What begins a condition, an assignment or a lock, found by looks alone.
BEGINS = re.compile(
    r"\b(?:WHERE|HAVING|AND|ON|(?<!CHARACTER )SET|FOR UPDATE|SKIP LOCKED)\b"
    r"|(?:\bSET|\bKEY UPDATE|,)\s+(?P<column>[a-z_][\w.]*)\s*=\s"
)
# In these the same words mean something else.
ELSE = re.compile(r"--[^\n]*|'[^']*'|(?<=BETWEEN )\S+ AND\b")


def unseen(text, seen):
    """The lines on which something begins that no mutant weakens."""
    bare = ELSE.sub(lambda found: " " * len(found[0]), text)
    for found in BEGINS.finditer(bare):
        starts = [found.start()] if not found["column"] else [found.start("column")]
        if found["column"] and found[0].startswith("SET"):
            starts.append(found.start())
        if not seen.issuperset(starts):
            yield " ".join(text[found.start():].lstrip(",\n ").splitlines()[0].split())
