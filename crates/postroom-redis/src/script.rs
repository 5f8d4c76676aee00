//! Lua scripts, each executed atomically on the server. Each file documents its keys, arguments and result.

use std::sync::LazyLock;

use redis::{Cmd, Script, ToRedisArgs};

pub(crate) static PUBLISH: LazyScript = LazyScript::new(|| include_str!("lua/publish.lua").into());
pub(crate) static GROUP: LazyScript = LazyScript::new(|| include_str!("lua/group.lua").into());
pub(crate) static RENEW: LazyScript = LazyScript::new(|| include_str!("lua/renew.lua").into());
pub(crate) static FETCH: LazyScript = LazyScript::new(|| include_str!("lua/fetch.lua").into());
pub(crate) static ACK: LazyScript = LazyScript::new(|| include_str!("lua/ack.lua").into());
pub(crate) static RELEASE: LazyScript = LazyScript::new(|| include_str!("lua/release.lua").into());
pub(crate) static TRIM: LazyScript = LazyScript::new(|| include_str!("lua/trim.lua").into());
pub(crate) static BURY: LazyScript = LazyScript::new(|| include_str!("lua/bury.lua").into());
pub(crate) static TAKE: LazyScript = LazyScript::new(|| include_str!("lua/take.lua").into());
pub(crate) static ADMIT: LazyScript = LazyScript::new(|| include_str!("lua/admit.lua").into());
pub(crate) static SWEEP: LazyScript = LazyScript::new(|| include_str!("lua/sweep.lua").into());
pub(crate) static LIST: LazyScript = LazyScript::new(|| include_str!("lua/list.lua").into());
pub(crate) static TALLY: LazyScript = LazyScript::new(|| include_str!("lua/tally.lua").into());
pub(crate) static TALLY_READ: LazyScript = LazyScript::new(|| include_str!("lua/tally_read.lua").into());
pub(crate) static LAG: LazyScript = LazyScript::new(|| include_str!("lua/lag.lua").into());

pub(crate) type LazyScript = LazyLock<HashedScript>;

/// A script with its hash, by which the server identifies it.
#[derive(Debug)]
pub(crate) struct HashedScript {
    code: &'static str,
    hash: String,
}

impl From<&'static str> for HashedScript {
    fn from(code: &'static str) -> Self {
        let hash = Script::new(code).get_hash().to_owned();
        Self { code, hash }
    }
}

impl HashedScript {
    /// The command that loads the script into the server.
    pub(crate) fn load(&self) -> Cmd {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(self.code);
        load
    }
}

/// A script call with its keys and arguments.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) script: &'static HashedScript,
    pub(crate) command: Cmd,
}

impl Call {
    /// Calls a script on these keys.
    pub(crate) fn on(script: &'static HashedScript, keys: &[String]) -> Self {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&script.hash).arg(keys.len()).arg(keys);
        Self { script, command }
    }

    /// Appends one or several arguments.
    pub(crate) fn arg(mut self, argument: impl ToRedisArgs) -> Self {
        self.command.arg(argument);
        self
    }
}
