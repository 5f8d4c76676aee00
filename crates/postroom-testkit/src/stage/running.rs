//! A stage that can be killed.

use std::thread;
use std::time::Duration;

use postroom_host::Module;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinError;

use super::{Scenery, Stage};
use crate::client::Client;
use crate::fresh::Fresh;

/// So long a driver's own threads are waited for.
const DEATH: Duration = Duration::from_secs(1);

/// A stage with a runtime and connections of its own. Dropping it is like killing a process: also requests that have begun end
/// where they are, and their connections break.
#[derive(Debug)]
pub struct Running {
    /// A client of it.
    pub client: Client,
    stage: Option<Stage>,
    runtime: Option<Runtime>,
}

impl Running {
    /// Sets modules up on a fresh store, as a process of its own would.
    pub async fn open(fresh: &Fresh, modules: Vec<Module>, scenery: Scenery) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap_or_else(|error| panic!("make a runtime: {error}"));
        let connecting = fresh.connecting();
        let opening = runtime.spawn(async move { Stage::set(connecting.await, modules, scenery).await });
        let stage = must(opening.await);
        Self {
            client: Client(stage.url.clone()),
            stage: Some(stage),
            runtime: Some(runtime),
        }
    }

    /// Lets what has begun end.
    pub async fn close(mut self) {
        if let (Some(stage), Some(runtime)) = (self.stage.take(), &self.runtime) {
            must(runtime.spawn(stage.close()).await);
        }
    }
}

fn must<T>(ended: Result<T, JoinError>) -> T {
    ended.unwrap_or_else(|error| panic!("a stage broke: {error}"))
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // On a thread that may wait: whoever goes on finds nobody who is still about to write.
            let dying = thread::spawn(move || runtime.shutdown_timeout(DEATH));
            drop(dying.join());
        }
    }
}
