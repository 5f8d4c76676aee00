//! `GET /alerts`: every rule, what was found now, and what was told.

use axum::Json;
use postroom::Result;
use postroom::alert::{self, Turn};
use serde::Serialize;
use time::OffsetDateTime;

use super::round::{Round, names};
use super::{Alerts, Finding, Rule, Watch};
use crate::problem::Problem;

/// A rule as it stands.
#[derive(Serialize)]
pub(crate) struct Standing {
    module: &'static str,
    #[serde(flatten)]
    rule: Rule,
    /// The current finding; absent if the look failed.
    #[serde(flatten)]
    finding: Option<Finding>,
    /// Since when it fires, as the last look saw it.
    #[serde(with = "time::serde::rfc3339::option")]
    since: Option<OffsetDateTime>,
    /// Whether somebody was told of that.
    is_told: bool,
    /// Why nobody could be told.
    error: Option<String>,
    /// Whether there is anybody to tell.
    has_destination: bool,
}

impl Alerts {
    pub(crate) async fn page(&self) -> Result<Json<Vec<Standing>>, Problem> {
        let mut page = Vec::new();
        for round in &self.0 {
            for watch in &round.watches {
                page.extend(round.standings(watch).await?);
            }
        }
        Ok(Json(page))
    }
}

impl Round {
    async fn standings(&self, watch: &Watch) -> Result<Vec<Standing>> {
        let known = alert::load(self.host.store.db(), &names(&watch.rules)).await?;
        let findings = (watch.look)(self.host.clone()).await.unwrap_or_else(|error| {
            tracing::warn!(
                module = self.module,
                error = error.report(),
                "alert rules were not looked at"
            );
            Vec::new()
        });
        let standing = |(at, rule): (usize, &Rule)| {
            let alert = known.iter().find(|alert| alert.rule == rule.name);
            let begun = alert.filter(|alert| alert.turn == Turn::Began);
            Standing {
                module: self.module,
                rule: *rule,
                finding: findings.get(at).copied(),
                since: begun.map(|alert| alert.since),
                is_told: begun.is_some_and(|alert| alert.is_told),
                error: alert.and_then(|alert| alert.error.clone()),
                has_destination: self.messengers.contains_key(&rule.channel),
            }
        };
        Ok(watch.rules.iter().enumerate().map(standing).collect())
    }
}
