//! Waiting for a condition with a limit, in place of sleeping.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What a look at the world says: not yet, or done with a value, or an error that ends the wait at once.
pub trait Look {
    /// What the wait hands over.
    type Value;

    /// `None` to look again.
    ///
    /// # Errors
    /// When looking again cannot help.
    fn seen(self) -> Result<Option<Self::Value>>;
}

impl Look for bool {
    type Value = ();

    fn seen(self) -> Result<Option<()>> {
        Ok(self.then_some(()))
    }
}

impl<T> Look for Option<T> {
    type Value = T;

    fn seen(self) -> Result<Option<T>> {
        Ok(self)
    }
}

impl<L: Look, E: Into<anyhow::Error>> Look for Result<L, E> {
    type Value = L::Value;

    fn seen(self) -> Result<Option<L::Value>> {
        self.map_err(Into::into)?.seen()
    }
}

/// Looks every 10 ms until `look` answers `true`, `Some` or an error; looks at least once.
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> anyhow::Result<()> {
/// let answer = sa_harness::wait_until("the answer", Duration::from_secs(1), async || Some(42)).await?;
/// assert_eq!(answer, 42);
/// # Ok(()) }
/// ```
///
/// # Errors
/// When the limit passes (the error names `what`), or a look fails.
pub async fn wait_until<L: Look>(what: &str, limit: Duration, mut look: impl AsyncFnMut() -> L) -> Result<L::Value> {
    let start = Instant::now();
    loop {
        if let Some(value) = look().await.seen()? {
            return Ok(value);
        }
        if start.elapsed() >= limit {
            bail!("waited {limit:?} in vain for: {what}");
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn limit_passed_names_what_was_awaited() {
        let error = wait_until("rain", Duration::from_millis(30), async || false).await.unwrap_err();
        assert!(error.to_string().contains("rain"), "{error}");
    }

    #[tokio::test]
    async fn failed_look_ends_the_wait() {
        let look = async || Err::<bool, _>(anyhow::anyhow!("gone"));
        let error = wait_until("rain", Duration::from_secs(60), look).await.unwrap_err();
        assert_eq!(error.to_string(), "gone");
    }
}
