//! Where the workspace is, what it builds and which files belong to it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::process;

/// The workspace this tool belongs to, as cargo describes it.
pub(crate) struct Workspace {
    /// The folder with the root `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// Where cargo builds; the services keep their files below it.
    pub(crate) target: PathBuf,
    /// The crates of the workspace.
    pub(crate) crates: Vec<Crate>,
}

/// A member of the workspace.
pub(crate) struct Crate {
    pub(crate) name: String,
    /// Its folder, relative to the root.
    pub(crate) folder: PathBuf,
    /// The names its code knows its `[dependencies]` by.
    pub(crate) dependencies: Vec<String>,
}

impl Workspace {
    pub(crate) fn find() -> Result<Self> {
        let manifest = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let root = Path::new(&manifest)
            .parent()
            .context("find the folder above xtask")?
            .to_path_buf();
        let text = process::output(
            process::cargo()
                .args(["metadata", "--no-deps", "--format-version", "1"])
                .current_dir(&root),
        )?;
        let metadata: Value = serde_json::from_str(&text).context("read the output of cargo metadata")?;
        let target = text_at(&metadata, "target_directory")?.into();
        let packages = metadata
            .get("packages")
            .and_then(Value::as_array)
            .context("find the packages in cargo metadata")?;
        let crates = packages
            .iter()
            .map(|package| Crate::read(&root, package))
            .collect::<Result<_>>()?;
        Ok(Self { root, target, crates })
    }

    /// The files that are, or would be, committed; relative to the root.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>> {
        let listed = process::output(
            Command::new("git")
                .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
                .current_dir(&self.root),
        )?;
        let mut files: Vec<PathBuf> = listed
            .split('\0')
            .filter(|name| !name.is_empty())
            .map(PathBuf::from)
            .filter(|name| self.root.join(name).is_file())
            .collect();
        files.sort();
        files.dedup();
        if files.is_empty() {
            bail!("git lists no files in {}", self.root.display());
        }
        Ok(files)
    }

    /// A file's text, or nothing when it is not text.
    pub(crate) fn text(&self, file: &Path) -> Result<Option<String>> {
        let bytes = fs::read(self.root.join(file)).with_context(|| format!("read {}", file.display()))?;
        Ok(String::from_utf8(bytes).ok())
    }
}

impl Crate {
    fn read(root: &Path, package: &Value) -> Result<Self> {
        let manifest = Path::new(text_at(package, "manifest_path")?);
        let folder = manifest
            .parent()
            .and_then(|folder| folder.strip_prefix(root).ok())
            .unwrap_or(root)
            .to_path_buf();
        let name_of = |dependency: &Value| {
            let name = dependency.get("rename").and_then(Value::as_str);
            name.or_else(|| dependency.get("name")?.as_str())
                .map(|name| name.replace('-', "_"))
        };
        let dependencies = package
            .get("dependencies")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter(|dependency| dependency.get("kind").is_some_and(Value::is_null))
            .filter_map(name_of)
            .collect();
        Ok(Self {
            name: text_at(package, "name")?.to_owned(),
            folder,
            dependencies,
        })
    }
}

fn text_at<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value
        .get(key)
        .and_then(Value::as_str)
        .with_context(|| format!("find {key} in cargo metadata"))
}
