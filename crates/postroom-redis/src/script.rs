//! What is done on the server in one step. Each script says beside its text what it takes and answers.

use std::sync::LazyLock;

use redis::{Cmd, Script, ToRedisArgs};

pub(crate) static PUBLISH: Text = Text::new(|| include_str!("lua/publish.lua").into());
pub(crate) static GROUP: Text = Text::new(|| include_str!("lua/group.lua").into());
pub(crate) static KEEP: Text = Text::new(|| include_str!("lua/keep.lua").into());
pub(crate) static FETCH: Text = Text::new(|| include_str!("lua/fetch.lua").into());
pub(crate) static ACK: Text = Text::new(|| include_str!("lua/ack.lua").into());
pub(crate) static LEAVE: Text = Text::new(|| include_str!("lua/leave.lua").into());
pub(crate) static TRIM: Text = Text::new(|| include_str!("lua/trim.lua").into());
pub(crate) static BURY: Text = Text::new(|| include_str!("lua/bury.lua").into());
pub(crate) static LAG: Text = Text::new(|| include_str!("lua/lag.lua").into());

pub(crate) type Text = LazyLock<Hashed>;

/// A script, which the server knows by its hash.
#[derive(Debug)]
pub(crate) struct Hashed {
    code: &'static str,
    hash: String,
}

impl From<&'static str> for Hashed {
    fn from(code: &'static str) -> Self {
        let hash = Script::new(code).get_hash().to_owned();
        Self { code, hash }
    }
}

impl Hashed {
    /// Makes the server know it.
    pub(crate) fn load(&self) -> Cmd {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(self.code);
        load
    }
}

/// A script with what it is called with.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) script: &'static Hashed,
    pub(crate) command: Cmd,
}

impl Call {
    /// Calls a script on these keys.
    pub(crate) fn on(script: &'static Hashed, keys: &[String]) -> Self {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&script.hash).arg(keys.len()).arg(keys);
        Self { script, command }
    }

    /// With one more argument, or several.
    pub(crate) fn arg(mut self, argument: impl ToRedisArgs) -> Self {
        self.command.arg(argument);
        self
    }
}
