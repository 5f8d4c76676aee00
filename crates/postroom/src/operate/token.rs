//! Tokens with which services and people come in over HTTP.
//!
//! A token has 256 random bits. It is shown once, when it is made; the database keeps its SHA-256, and its
//! first characters so that people recognise it. [`admitted`] is the list that a process reads again and again: a token that is
//! revoked or has expired is not in it.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;

use sea_orm::sea_query::{Expr, ExprTrait, Order, Query, SelectStatement};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, QueryResult};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

use crate::clock;
use crate::error::{Error, ErrorKind, Result};
use crate::operate::audit;
use crate::policy::filter::Filter;
use crate::store::db_clock::{db_now, read_stamp, stamp};
use crate::store::table::{self, Table, json_value};
use crate::store::tx::Tx;

/// Every token begins with this, so that people and scanners for leaked secrets recognise it.
const PREFIX: &str = "postroom";
/// Characters of the random part that a list shows.
const HINT: usize = 6;
const NAME_MAX: usize = 100;

/// The role of a token: it decides what the holder may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A program: the routes of modules and the event types of its scope.
    Service,
    /// A person who looks.
    Viewer,
    /// A person who also acts: retries, replays, pauses.
    Operator,
    /// A person who may call every route that is not for members.
    Admin,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Service, Self::Viewer, Self::Operator, Self::Admin];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|role| role.name() == text);
        found.ok_or_else(|| {
            Error::invalid(format!(
                "there is no role {text:?}; use service, viewer, operator or admin"
            ))
        })
    }
}

/// The modules and the event types that a service may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scope {
    /// Modules whose HTTP routes it may call.
    pub modules: BTreeSet<String>,
    /// Patterns of event types that it may post to `/api/v1/events`.
    pub emit: BTreeSet<String>,
}

impl Scope {
    /// Whether it may call the HTTP routes of this module.
    pub fn includes_module(&self, module: &str) -> bool {
        self.modules.contains(module)
    }

    /// Whether it may post events of this type.
    pub fn includes_type(&self, event_type: &str) -> bool {
        !self.emit.is_empty() && Filter::any_of(self.emit.iter().cloned()).matches(event_type)
    }

    fn is_empty(&self) -> bool {
        self.modules.is_empty() && self.emit.is_empty()
    }
}

/// A token to be made.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// For people: which program or person has it. No other token that is in use has this name.
    pub name: String,
    /// The role of its holder.
    pub role: Role,
    /// The modules and the event types that a service may reach; empty for people.
    pub scope: Scope,
    /// Until when it is accepted; `None`: until it is revoked.
    pub expires_at: Option<OffsetDateTime>,
}

impl NewToken {
    fn check(&self, now: OffsetDateTime) -> Result<()> {
        let is_good = |c: char| c.is_ascii_alphanumeric() || ".-_@".contains(c);
        if self.name.is_empty() || self.name.len() > NAME_MAX || !self.name.chars().all(is_good) {
            return Err(Error::invalid(format!(
                "the name of a token has 1 to {NAME_MAX} letters, digits, '.', '-', '_' or '@', not {:?}",
                self.name
            )));
        }
        match (self.role, self.scope.is_empty()) {
            (Role::Service, true) => {
                return Err(Error::invalid(
                    "a token for a service needs a scope: modules that it may call, or event types that it may post",
                ));
            }
            (Role::Viewer | Role::Operator | Role::Admin, false) => {
                return Err(Error::invalid(format!(
                    "a scope is for services; a token with the role {} has none",
                    self.role
                )));
            }
            _ => {}
        }
        if !self.scope.emit.is_empty() {
            Filter::any_of(self.scope.emit.iter().cloned()).check()?;
        }
        if self.expires_at.is_some_and(|at| at <= now) {
            return Err(Error::invalid(
                "the token would have expired already; choose a later time",
            ));
        }
        Ok(())
    }
}

/// A new token. `Display` shows it, `Debug` does not.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// 256 random bits behind a readable prefix.
    fn random(role: Role) -> Self {
        let bytes: [u8; 32] = rand::random();
        Self(format!("{PREFIX}_{role}_{}", hex(&bytes)))
    }

    fn hint(&self) -> String {
        let random = self.0.rfind('_').map_or(0, |at| at + 1);
        self.0.chars().take(random + HINT).collect()
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The SHA-256 of a token.
pub type Digest = [u8; 32];

/// Computes the [`Digest`] of a token.
pub fn digest(token: &str) -> Digest {
    Sha256::digest(token.as_bytes()).into()
}

/// The [`digest`] of a token in hexadecimal digits, as the database keeps it.
pub fn hash(token: &str) -> String {
    hex(&digest(token))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A token as the database keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Token {
    /// Which program or person has it.
    pub name: String,
    /// The role of its holder.
    pub role: Role,
    /// The modules and the event types that a service may reach.
    pub scope: Scope,
    /// How it begins.
    pub hint: String,
    /// When it was made.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// The operator who made it.
    pub created_by: String,
    /// Until when it is accepted.
    #[serde(with = "time::serde::rfc3339::option")]
    pub expires_at: Option<OffsetDateTime>,
    /// When a process last accepted it. A process writes this down half a minute later.
    #[serde(with = "time::serde::rfc3339::option")]
    pub last_used_at: Option<OffsetDateTime>,
    /// Since when it is not accepted any more.
    #[serde(with = "time::serde::rfc3339::option")]
    pub revoked_at: Option<OffsetDateTime>,
    /// The operator who revoked it.
    pub revoked_by: Option<String>,
    #[serde(skip)]
    hash: String,
}

impl Token {
    /// Its hash, as [`hash`] computes it.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Its digest, as [`digest`] computes it, if the hash in the database is one.
    pub fn digest(&self) -> Option<Digest> {
        let mut digest = Digest::default();
        for (byte, place) in digest.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(self.hash.get(place..place + 2)?, 16).ok()?;
        }
        Some(digest)
    }

    /// Whether it is accepted at this time.
    pub fn is_valid(&self, now: OffsetDateTime) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|at| now < at)
    }
}

/// Makes a token. The answer is the only place where it can be read.
pub async fn create(db: &DatabaseConnection, new: &NewToken, actor: &str) -> Result<Secret> {
    let now = clock::now();
    new.check(now)?;
    let tx = table::begin_own(db).await?;
    let in_use = select(&tx, Some(&new.name)).await?;
    if in_use.iter().any(|token| token.is_valid(now)) {
        return Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "a token named {:?} is in use; choose another name, or revoke that token first",
                new.name
            ),
        ));
    }
    let secret = Secret::random(new.role);
    insert(&tx, new, &secret, actor).await?;
    let detail = serde_json::json!({ "role": new.role, "scope": new.scope, "hint": secret.hint() });
    audit::record(&tx, actor, "token.create", &new.name, &detail).await?;
    tx.commit().await?;
    Ok(secret)
}

async fn insert(tx: &Tx, new: &NewToken, secret: &Secret, actor: &str) -> Result<()> {
    let backend = tx.get_database_backend();
    let expires_at = match new.expires_at {
        Some(at) => Expr::val(stamp(backend, at)),
        None => Expr::cust("null"),
    };
    let mut insert = Query::insert();
    insert
        .into_table(table::named(tx, Table::AccessToken))
        .columns(["hash", "hint", "name", "role", "scope", "created_by", "expires_at"])
        .values_panic([
            hash(&secret.0).into(),
            secret.hint().into(),
            new.name.as_str().into(),
            new.role.name().into(),
            json_value(backend, &serde_json::to_string(&new.scope)?),
            actor.into(),
            expires_at,
        ]);
    tx.execute(&insert)
        .await
        .map_err(|source| Error::db("write a token", source))?;
    Ok(())
}

/// All tokens, also revoked and expired ones, newest first. This writes nothing.
pub async fn list(db: &DatabaseConnection) -> Result<Vec<Token>> {
    let tx = table::look(db).await?;
    let tokens = select(&tx, None).await?;
    tx.commit().await?;
    Ok(tokens)
}

/// The tokens that are accepted now. A row that this version cannot read is left out. This writes nothing.
pub async fn admitted(db: &DatabaseConnection) -> Result<Vec<Token>> {
    let tx = table::look(db).await?;
    let backend = tx.get_database_backend();
    let mut select = columns(&tx);
    select.and_where(Expr::col("revoked_at").is_null());
    let rows = query(&tx, &select).await?;
    tx.commit().await?;
    let now = clock::now();
    let readable = rows.iter().filter_map(|row| match read(row, backend) {
        Ok(token) => Some(token),
        Err(error) => {
            tracing::warn!(error = error.report(), "a token cannot be read and is not accepted");
            None
        }
    });
    Ok(readable.filter(|token| token.is_valid(now)).collect())
}

/// Revokes the tokens of this name. Every process refuses them within seconds.
pub async fn revoke(db: &DatabaseConnection, name: &str, actor: &str) -> Result<()> {
    let tx = table::begin_own(db).await?;
    let backend = tx.get_database_backend();
    let mut update = Query::update();
    update
        .table(table::named(&tx, Table::AccessToken))
        .value("revoked_at", db_now(backend))
        .value("revoked_by", actor)
        .and_where(Expr::col("name").eq(name))
        .and_where(Expr::col("revoked_at").is_null());
    let revoked = tx
        .execute(&update)
        .await
        .map_err(|source| Error::db("revoke a token", source))?;
    if revoked.rows_affected() == 0 {
        let says = match select(&tx, Some(name)).await?.first() {
            Some(_) => format!("the token {name:?} is revoked already"),
            None => format!("there is no token named {name:?}"),
        };
        return Err(Error::new(ErrorKind::NotFound, says));
    }
    audit::record(&tx, actor, "token.revoke", name, &serde_json::json!({})).await?;
    tx.commit().await?;
    Ok(())
}

/// Writes down when tokens with these hashes were accepted.
pub async fn record_use(db: &DatabaseConnection, used: &HashMap<String, OffsetDateTime>) -> Result<()> {
    let tx = table::begin_own(db).await?;
    for (hash, at) in used {
        let mut update = Query::update();
        update
            .table(table::named(&tx, Table::AccessToken))
            .value("last_used_at", Expr::val(stamp(tx.get_database_backend(), *at)))
            .and_where(Expr::col("hash").eq(hash.as_str()));
        tx.execute(&update)
            .await
            .map_err(|source| Error::db("write down when a token was used", source))?;
    }
    tx.commit().await?;
    Ok(())
}

async fn select(tx: &Tx, name: Option<&str>) -> Result<Vec<Token>> {
    let mut select = columns(tx);
    if let Some(name) = name {
        select.and_where(Expr::col("name").eq(name));
    }
    let rows = query(tx, &select).await?;
    rows.iter().map(|row| read(row, tx.get_database_backend())).collect()
}

fn columns(tx: &Tx) -> SelectStatement {
    let scope = match tx.get_database_backend() {
        DbBackend::Postgres => Expr::col("scope").cast_as("text"),
        _ => Expr::col("scope"),
    };
    let mut select = Query::select();
    select
        .columns([
            "hash",
            "hint",
            "name",
            "role",
            "created_at",
            "created_by",
            "expires_at",
            "last_used_at",
            "revoked_at",
            "revoked_by",
        ])
        .expr_as(scope, "scope")
        .from(table::named(tx, Table::AccessToken))
        .order_by("created_at", Order::Desc)
        .order_by("hash", Order::Asc);
    select
}

async fn query(tx: &Tx, select: &SelectStatement) -> Result<Vec<QueryResult>> {
    tx.query_all(select)
        .await
        .map_err(|source| Error::db("read the tokens", source))
}

fn read(row: &QueryResult, backend: DbBackend) -> Result<Token> {
    let created_at = read_stamp(row, backend, "created_at")?;
    Ok(Token {
        name: row.try_get("", "name")?,
        role: row.try_get::<String>("", "role")?.parse()?,
        scope: serde_json::from_str(&row.try_get::<String>("", "scope")?)?,
        hint: row.try_get("", "hint")?,
        created_at: created_at.ok_or_else(|| Error::new(ErrorKind::Failed, "a token has no created_at"))?,
        created_by: row.try_get("", "created_by")?,
        expires_at: read_stamp(row, backend, "expires_at")?,
        last_used_at: read_stamp(row, backend, "last_used_at")?,
        revoked_at: read_stamp(row, backend, "revoked_at")?,
        revoked_by: row.try_get("", "revoked_by")?,
        hash: row.try_get("", "hash")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_recognised_random_and_hidden_in_debug() {
        let (one, other) = (Secret::random(Role::Service), Secret::random(Role::Service));
        assert_ne!(one, other);
        let shown = one.to_string();
        assert!(shown.starts_with("postroom_service_"), "{shown}");
        assert_eq!(shown.len(), "postroom_service_".len() + 64);
        assert_eq!(one.hint(), shown[.."postroom_service_".len() + HINT]);
        assert_eq!(format!("{one:?}"), "Secret(…)");
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash("abc"), abc, "FIPS 180-2's example");
    }

    #[test]
    fn a_scope_reaches_what_it_names_and_nothing_else() {
        let scope = Scope {
            modules: ["ledger".to_owned()].into(),
            emit: ["shop.order.*".to_owned()].into(),
        };
        assert!(scope.includes_module("ledger") && !scope.includes_module("umbra"));
        assert!(scope.includes_type("shop.order.paid") && !scope.includes_type("shop.cart.left"));
        assert!(!Scope::default().includes_type("shop.order.paid") && !Scope::default().includes_module("ledger"));
    }

    #[test]
    fn a_token_that_makes_no_sense_is_refused() {
        let now = clock::now();
        let new = |name: &str, role, modules: &[&str]| NewToken {
            name: name.to_owned(),
            role,
            scope: Scope {
                modules: modules.iter().map(|&name| name.to_owned()).collect(),
                emit: BTreeSet::new(),
            },
            expires_at: None,
        };
        let check = |new: NewToken, words: &str| {
            let error = new.check(now).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        };
        check(new("", Role::Admin, &[]), "1 to 100 letters");
        check(new("two words", Role::Admin, &[]), "two words");
        check(new("ledger", Role::Service, &[]), "needs a scope");
        check(new("kim", Role::Viewer, &["ledger"]), "a scope is for services");
        let late = NewToken {
            expires_at: Some(now),
            ..new("kim", Role::Admin, &[])
        };
        check(late, "expired already");
        let mut spoilt = new("shop", Role::Service, &["shop"]);
        spoilt.scope.emit.insert("shop.**.paid".to_owned());
        check(spoilt, "shop.**.paid");
        new("kim@example.com", Role::Admin, &[]).check(now).unwrap();
    }
}
