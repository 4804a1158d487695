"""Reads what a program exports for Prometheus."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families


def sum_of(page: str, name: str, **labels: str) -> float:
    """Return the sum of the samples of that name that have these labels, 0 for none."""
    samples = (sample for family in text_string_to_metric_families(page) for sample in family.samples)
    return sum(sample.value for sample in samples if sample.name == name and labels.items() <= sample.labels.items())
