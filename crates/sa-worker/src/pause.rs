//! Growing pauses between tries.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// A pause that doubles each time, up to a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pause {
    first: Duration,
    next: Duration,
    longest: Duration,
}

impl Pause {
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self { first: first.min(longest), next: first.min(longest), longest }
    }

    /// The pause between two tries at a database that is away.
    pub(crate) fn for_outage() -> Self {
        Self::new(Duration::from_millis(100), Duration::from_secs(5))
    }

    /// The pause to make now.
    pub(crate) fn take(&mut self) -> Duration {
        let now = self.next;
        self.next = (now * 2).min(self.longest);
        now
    }

    /// As [`Pause::take`], with up to a fifth on top: those who lost the same server must not come back in step.
    pub(crate) fn take_spread(&mut self) -> Duration {
        let base = self.take();
        // `RandomState` is seeded anew by each `new`.
        let fraction = RandomState::new().hash_one(()) % 1000;
        base + base.mul_f64(fraction as f64 / 5000.0)
    }

    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_start_anew() {
        let ms = Duration::from_millis;
        let mut pause = Pause::new(ms(50), ms(250));
        assert_eq!(
            [pause.take(), pause.take(), pause.take(), pause.take(), pause.take()].map(|p| p.as_millis()),
            [50, 100, 200, 250, 250]
        );
        pause.reset();
        assert_eq!(pause.take(), ms(50));
        assert_eq!(Pause::new(ms(50), ms(20)).take(), ms(20));
        let spread = Pause::new(ms(100), ms(100)).take_spread();
        assert!(spread >= ms(100) && spread < ms(120), "{spread:?}");
    }
}
