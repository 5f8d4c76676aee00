//! `postroom token`: make, list and revoke the tokens with which services and people come in.

use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use postroom::clock;
use postroom::operate::token::{self, NewToken, Role, Scope};
use postroom_terminal::output::{self, print, print_json};
use postroom_terminal::page;
use serde_json::json;
use time::OffsetDateTime;

use super::actor;
use crate::config::{Config, parse_duration};
use crate::module::BUILT_IN;

/// Make, list and revoke the tokens with which services and people come in
#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Make a token; it is shown once, and the store keeps its hash and its first characters
    Create(Create),
    /// List all tokens, newest first: name, role, scope, last use
    List(List),
    /// Revoke a token; every process refuses it within 5 seconds
    Revoke(Revoke),
    /// Make a token for a member of your application, with the secret of [access.members]
    Member(Member),
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Which program or person has it, for example billing-service or kim@example.com
    name: String,
    /// What its holder may do
    #[arg(long, default_value = "service", value_parser = role)]
    role: Role,
    /// A module whose HTTP routes the service may call; may be repeated
    #[arg(long = "module", value_name = "MODULE")]
    modules: Vec<String>,
    /// Event types that the service may post to /api/v1/events, for example 'shop.order.**'; may be repeated
    #[arg(long, value_name = "PATTERN")]
    emit: Vec<String>,
    /// How long it is accepted, for example 90d [default: until it is revoked]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    expires_in: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Revoke {
    /// Its name, as `token list` shows it
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Member {
    /// The id of the member
    member: String,
    /// How long it is accepted
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    expires_in: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn role(text: &str) -> Result<Role, String> {
    text.parse().map_err(|error: postroom::Error| error.to_string())
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| r#"must be a duration such as "12h" or "90d""#.to_owned())
}

impl Token {
    pub(crate) async fn run(self, config: &Config) -> Result<()> {
        match self {
            Self::Create(command) => command.run(config).await,
            Self::List(command) => command.run(config).await,
            Self::Revoke(command) => command.run(config).await,
            Self::Member(command) => command.run(config),
        }
    }
}

impl Create {
    async fn run(self, config: &Config) -> Result<()> {
        warn_of_unknown(&self.modules);
        let store = config.store.url.open_ready().await?;
        let new = NewToken {
            name: self.name,
            role: self.role,
            scope: Scope {
                modules: self.modules.into_iter().collect(),
                emit: self.emit.into_iter().collect(),
            },
            expires_at: self.expires_in.map(expiry).transpose()?,
        };
        let secret = token::create(store.db(), &new, &actor()).await?;
        if self.json {
            return print_json(&json!({ "name": new.name, "role": new.role, "token": secret.to_string() }));
        }
        // A script gets the token alone.
        print(&secret)?;
        if output::is_terminal() {
            print(format!(
                "\nThis is the only time that the token of {} ({}) is shown. Send it as `authorization: Bearer TOKEN`.",
                new.name, new.role
            ))?;
        }
        Ok(())
    }
}

impl List {
    async fn run(self, config: &Config) -> Result<()> {
        let store = config.store.url.open_ready_to_read().await?;
        let tokens = token::list(store.db()).await?;
        if self.json {
            return print_json(&tokens);
        }
        page::token::list(&tokens, clock::now())
    }
}

/// Warns of modules that this program does not have. A service with modules of its own may share the store, so they are not
/// refused.
fn warn_of_unknown(modules: &[String]) {
    let known = BUILT_IN.map(|(name, _)| name);
    for module in modules.iter().filter(|module| !known.contains(&module.as_str())) {
        tracing::warn!(
            "--module {module} opens no route of this program; its modules are {}",
            known.join(", ")
        );
    }
}

/// The time at which a token expires that is made now.
fn expiry(lifetime: Duration) -> Result<OffsetDateTime> {
    let lifetime = time::Duration::try_from(lifetime).ok();
    let expires_at = lifetime.and_then(|lifetime| clock::now().checked_add(lifetime));
    expires_at.context("--expires-in is too long; the token would expire after the year 9999")
}

impl Revoke {
    async fn run(self, config: &Config) -> Result<()> {
        let store = config.store.url.open_ready().await?;
        token::revoke(store.db(), &self.name, &actor()).await?;
        match self.json {
            true => print_json(&json!({ "revoked": self.name })),
            false => print(format!(
                "{} is revoked; every process refuses it within 5 seconds",
                self.name
            )),
        }
    }
}

impl Member {
    fn run(self, config: &Config) -> Result<()> {
        let keys = config.access.members()?;
        let keys = keys
            .context("[access.members] is not configured; set a secret in [access.members], or POSTROOM__ACCESS__MEMBERS__SECRET")?;
        let token = keys.mint(&self.member, self.expires_in)?;
        match self.json {
            true => print_json(&json!({ "member": self.member, "token": token })),
            false => print(token),
        }
    }
}
