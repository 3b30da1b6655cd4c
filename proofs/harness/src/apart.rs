//! Work on a thread and runtime of its own, so that a test which blocks its thread, or is being dropped, cannot stall it.

use std::{future::Future, thread};

use anyhow::{Result, anyhow};
use tokio::{
    runtime::{Builder, Runtime},
    sync::watch,
};

/// Runs `work` to its end while the caller's thread waits; callable from `Drop` and from inside another runtime.
pub(crate) fn apart<T: Send>(work: impl Future<Output = Result<T>> + Send) -> Result<T> {
    thread::scope(|scope| {
        scope
            .spawn(|| runtime()?.block_on(work))
            .join()
            .unwrap_or_else(|_panic| Err(anyhow!("the work on its own thread panicked")))
    })
}

/// Work that goes on until this is dropped.
#[derive(Debug)]
pub(crate) struct Background {
    _ends_when_dropped: watch::Sender<()>,
}

impl Background {
    /// Starts `work`; it must not need anything from the caller's runtime.
    pub(crate) fn start(work: impl Future<Output = ()> + Send + 'static) -> Result<Self> {
        let runtime = runtime()?;
        let (sender, mut dropped) = watch::channel(());
        thread::Builder::new().name("sa-harness".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = work => {}
                    _ = dropped.changed() => {}
                }
            });
        })?;
        Ok(Self { _ends_when_dropped: sender })
    }
}

fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}
