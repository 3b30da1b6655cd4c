//! Rounds in turns, so that whatever else the machine does hits both sides.

use anyhow::Result;

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Ours,
    Base,
}

/// The rates of one round.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    pub ours: f64,
    pub base: f64,
}

impl Pair {
    pub fn ratio(self) -> f64 {
        self.ours / self.base
    }
}

/// Two rates to be compared.
pub trait Contest {
    /// Turns that each side takes in a round: many short ones, where a side can stop and go on.
    const TURNS: usize;

    /// Puts both sides back to where each round begins.
    async fn reset(&mut self) -> Result<()>;

    /// Seconds that one side needs for the work of one turn, and that work.
    async fn turn(&mut self, side: Side) -> Result<Turn>;
}

/// What one turn came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    pub work: usize,
    pub seconds: f64,
}

impl Turn {
    fn add(&mut self, other: Self) {
        self.work += other.work;
        self.seconds += other.seconds;
    }

    fn rate(self) -> f64 {
        self.work as f64 / self.seconds
    }
}

/// Lets both sides take turns, the first turn changing each time, after one round that does not count.
pub async fn take_turns<C: Contest>(contest: &mut C, rounds: usize) -> Result<Vec<Pair>> {
    round(contest, 0).await?;
    let mut pairs = Vec::with_capacity(rounds);
    for n in 0..rounds {
        pairs.push(round(contest, n).await?);
    }
    Ok(pairs)
}

async fn round<C: Contest>(contest: &mut C, n: usize) -> Result<Pair> {
    contest.reset().await?;
    let (mut ours, mut base) = (Turn::default(), Turn::default());
    for turn in n..n + C::TURNS {
        let sides = if turn % 2 == 0 { [Side::Base, Side::Ours] } else { [Side::Ours, Side::Base] };
        for side in sides {
            let turn = contest.turn(side).await?;
            match side {
                Side::Ours => ours.add(turn),
                Side::Base => base.add(turn),
            }
        }
    }
    Ok(Pair { ours: ours.rate(), base: base.rate() })
}
