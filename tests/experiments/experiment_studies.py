"""Small studies for the tests: simulated rows, quick methods."""

SMALL = """
name: small
question: Does more ε help?
data: {example: regression, rows: 300}
vary: {epsilon: [0.5, 2]}
methods:
  - {name: table, method: flat, vary: {post: [project, clip]}}
  - {name: columns, method: marginals}
repeats: 2
seed: 4
metrics: [tvd-1, tvd-2]
"""


def altered(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)
