"""The OpenAPI document: FastAPI's, with the schema and an example of what is posted, which is read by hand."""

from typing import Any

from fastapi import FastAPI

from opduel.server.schemas import Posted

_BUILD: dict[str, Any] = {
    "framework": "toy",
    "strategy": "environment",
    "interpreter": "/usr/bin/python3",
    "python": "3.11.7",
    "packages": {},
    "environment": {},
    "directory": None,
    "created": None,
    "duration_s": None,
    "commit": None,
}
EXAMPLE: dict[str, Any] = {
    "category": "nightly",
    "report": {
        "schema_version": 2,
        "run": {"id": "20261121T231820Z-ce81b5", "started": "2026-11-21T23:18:20+00:00", "spec": "smoke"},
        "control": {**_BUILD, "requested": "toy-1.0", "version": "1.0", "digest": "d5afb59098f1"},
        "treatment": {**_BUILD, "requested": "toy-1.1", "version": "1.1", "digest": "0343360f866f"},
        "host": {"cpu_model": "AMD EPYC"},
        "comparisons": [
            {
                "case": "softmax/forward",
                "operator": "nd.softmax",
                "direction": "forward",
                "metric": "time",
                "unit": "ns",
                "verdict": "regressed",
                "ratio": 1.1031,
                "ci": [1.0893, 1.1172],
                "p_value": 0.00021,
                "q_value": 0.0011,
                "threshold": 0.02,
                "mde": 0.031,
                "control": 41210.5,
                "treatment": 45459.4,
                "rounds": 12,
                "decided_on": "confirmation",
                "failure": None,
                "injected": False,
            }
        ],
    },
}


def describe(app: FastAPI) -> None:
    """Complete the document that ``app`` answers with; its routes are all there."""
    document = app.openapi()
    schema = Posted.model_json_schema(ref_template="#/components/schemas/{model}")
    document["components"]["schemas"] |= schema.pop("$defs") | {"Posted": schema}
    post = document["paths"]["/api/v1/reports"]["post"]
    post["requestBody"]["content"]["application/json"]["example"] = EXAMPLE
