//! Settings of a module: from a section of a configuration to the type that the module declares.

use std::fmt;

use postroom::{Error, Result};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::Module;

type Apply = dyn FnOnce(Module, Value) -> Result<Module, Vec<Mistake>> + Send + Sync;

/// Settings that a module has declared and not been given yet.
pub(crate) struct Declared(Box<Apply>);

impl Declared {
    pub(crate) fn new<S: DeserializeOwned>(apply: impl FnOnce(Module, S) -> Module + Send + Sync + 'static) -> Self {
        Self(Box::new(move |module, settings| Ok(apply(module, read(settings)?))))
    }

    pub(crate) fn apply(self, module: Module, settings: Map<String, Value>) -> Result<Module, Misconfigured> {
        let name = module.name;
        (self.0)(module, Value::Object(settings)).map_err(|mistakes| Misconfigured { module: name, mistakes })
    }
}

impl fmt::Debug for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Declared")
    }
}

/// Reads settings; a key that the type does not know is a mistake, also without `deny_unknown_fields`.
fn read<S: DeserializeOwned>(settings: Value) -> Result<S, Vec<Mistake>> {
    let (mut unknown, mut track) = (Vec::new(), serde_path_to_error::Track::new());
    let tracked = serde_path_to_error::Deserializer::new(settings, &mut track);
    let read = serde_ignored::deserialize(tracked, |path| unknown.push(Mistake::unknown(path.to_string())));
    match read {
        Ok(settings) if unknown.is_empty() => Ok(settings),
        Ok(_) => Err(unknown),
        Err(error) => {
            unknown.push(Mistake {
                key: track.path().to_string(),
                says: error.to_string(),
            });
            Err(unknown)
        }
    }
}

/// A setting that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Its key within the module's section, with dots between nested keys; `.` is the section itself.
    pub key: String,
    /// The reason, for a person.
    pub says: String,
}

impl Mistake {
    pub(crate) fn unknown(key: String) -> Self {
        let says = "unknown key; the module has no such setting".to_owned();
        Self { key, says }
    }
}

/// Settings that a module cannot use: everything that is wrong with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misconfigured {
    /// The module.
    pub module: &'static str,
    /// Every setting that is wrong.
    pub mistakes: Vec<Mistake>,
}

impl std::error::Error for Misconfigured {}

impl fmt::Display for Misconfigured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the settings of the module {} cannot be used", self.module)?;
        for Mistake { key, says } in &self.mistakes {
            write!(f, "; {key}: {says}")?;
        }
        Ok(())
    }
}

impl From<Misconfigured> for Error {
    fn from(error: Misconfigured) -> Self {
        Self::invalid(error.to_string())
    }
}
