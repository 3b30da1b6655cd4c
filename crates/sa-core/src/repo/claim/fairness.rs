//! Every so many claims one is fair: it takes the oldest job, whatever is more urgent, so that none waits for ever.

/// Counts claims up to the next fair one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fairness {
    /// 0 means never.
    every: usize,
    /// Claims since the last fair one.
    since: usize,
}

impl Fairness {
    pub(super) const fn never() -> Self {
        Self { every: 0, since: 0 }
    }

    pub(super) fn every(every: u32) -> Self {
        Self { every: usize::try_from(every).unwrap_or(usize::MAX), since: 0 }
    }

    /// How many of the next `want` claims are fair.
    pub(super) fn places(self, want: usize) -> usize {
        self.since.saturating_add(want).checked_div(self.every).unwrap_or(0)
    }

    /// So many claims were made.
    pub(super) fn note(&mut self, made: usize) {
        self.since = self.since.saturating_add(made).checked_rem(self.every).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of the claims are fair, counted from 1, when they are made in batches of this size.
    fn fair(every: u32, batch: usize, batches: usize) -> Vec<usize> {
        let (mut fairness, mut made, mut fair) = (Fairness::every(every), 0, Vec::new());
        for _ in 0..batches {
            fair.extend((1..=fairness.places(batch)).map(|n| made + n));
            fairness.note(batch);
            made += batch;
        }
        fair
    }

    #[test]
    fn every_nth_claim_is_fair_and_none_comes_late() {
        assert_eq!(fair(8, 1, 24), [8, 16, 24]);
        assert_eq!(fair(8, 5, 6), [6, 16, 21], "the first of the batch that holds the eighth");
        assert_eq!(fair(8, 64, 1), (1..=8).collect::<Vec<_>>());
        assert_eq!(fair(1, 2, 2), [1, 2, 3, 4]);
    }

    #[test]
    fn zero_is_never() {
        assert_eq!(fair(0, 64, 3), Vec::<usize>::new());
        assert_eq!(Fairness::never().places(64), 0);
    }
}
