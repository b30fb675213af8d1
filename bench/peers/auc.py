"""The AUC that all peers are measured by."""

import numpy as np


def exact_auc(labels, scores):
    """The area under the ROC curve with ties counting half (mid-ranks)."""
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks = (last - (counts - 1) / 2.0)[inverse]
    positives = labels.sum()
    negatives = len(labels) - positives
    return (ranks[labels == 1].sum() - positives * (positives + 1) / 2) / (positives * negatives)
