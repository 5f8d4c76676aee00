//! `umbra-licensing`: a licence follows its guild, its subscription and its card. Repeated and late events change nothing.

use std::time::Duration;

use postroom::{BoxError, DomainEvent, Error, Event, Handler, Result, Tx, emit};

use super::domain::{License, Paid};
use super::events::{LicenseCanceled, LicenseDowngraded, LicenseExtended, LicenseGranted, LicenseSuspended};
use super::tables;
use crate::billing::events::{
    BILLING_KEY_ID, BillingKeyDeleted, PaymentFailedFinal, PaymentSucceeded, PlanDowngraded, PlanUpgraded,
    SubscriptionStarted, SubscriptionSuspended,
};
use crate::door::new_id;
use crate::guild::events::{BotInstalled, BotKicked, GuildDeleted};
use crate::order::mark;
use crate::plan::Plan;

/// The events that licensing subscribes to.
pub(crate) const LISTENS: [&str; 10] = [
    BotInstalled::TYPE,
    BotKicked::TYPE,
    GuildDeleted::TYPE,
    BillingKeyDeleted::TYPE,
    SubscriptionStarted::TYPE,
    PaymentSucceeded::TYPE,
    PaymentFailedFinal::TYPE,
    SubscriptionSuspended::TYPE,
    PlanUpgraded::TYPE,
    // No event reports the start of a lower plan, so licensing stores it until the payment for it.
    PlanDowngraded::TYPE,
];

/// Licensing, with the part of billing's calendar that it needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Licensing {
    /// The length of the first paid period.
    pub(crate) period: Duration,
}

impl Handler for Licensing {
    async fn handle(&self, tx: &mut Tx, event: &Event) -> Result<(), BoxError> {
        Ok(self.follow(tx, event).await?)
    }
}

impl Licensing {
    async fn follow(&self, tx: &Tx, event: &Event) -> Result<()> {
        match event.event_type.as_str() {
            BotInstalled::TYPE => install(tx, event).await,
            BotKicked::TYPE => {
                let kicked: BotKicked = event.decode()?;
                suspend(tx, license_of_guild(tx, event, &kicked.guild_id).await?, "bot_kicked").await
            }
            GuildDeleted::TYPE => cancel(tx, event).await,
            BillingKeyDeleted::TYPE => {
                let deleted: BillingKeyDeleted = event.decode()?;
                suspend(
                    tx,
                    tables::of_key(tx, &deleted.billing_key_id).await?,
                    "billing_key_deleted",
                )
                .await
            }
            SubscriptionStarted::TYPE => self.grant(tx, event).await,
            PaymentSucceeded::TYPE => extend(tx, event).await,
            PaymentFailedFinal::TYPE => downgrade_to_free(tx, event).await,
            SubscriptionSuspended::TYPE => {
                let suspended: SubscriptionSuspended = event.decode()?;
                let license = license_of_subscription(tx, event, &suspended.subscription_id).await?;
                suspend(tx, license, &suspended.reason).await
            }
            PlanUpgraded::TYPE => upgrade(tx, event).await,
            PlanDowngraded::TYPE => note_downgrade(tx, event).await,
            other => Err(Error::invalid(format!("licensing has no handler for {other}"))),
        }
    }

    async fn grant(&self, tx: &Tx, event: &Event) -> Result<()> {
        let started: SubscriptionStarted = event.decode()?;
        let known = tables::lock(tx, ("guild_id", &started.guild_id)).await?;
        let is_new = known.is_none();
        let mut license = known.unwrap_or_else(|| License::free(new_id(), started.guild_id.clone(), ""));
        if !license.follow_subscription(&mark(event)) {
            return Ok(());
        }
        license.grant(Paid {
            subscription_id: started.subscription_id,
            billing_key_id: event.headers.get(BILLING_KEY_ID).cloned(),
            plan: plan(&started.plan_code)?,
            until: event.occurred_at + self.period,
        });
        match is_new {
            true => tables::insert(tx, &license).await?,
            false => tables::save(tx, &license).await?,
        }
        emit_granted(tx, &license).await
    }
}

async fn install(tx: &Tx, event: &Event) -> Result<()> {
    let installed: BotInstalled = event.decode()?;
    let mark = mark(event);
    let Some(mut license) = tables::lock(tx, ("guild_id", &installed.guild_id)).await? else {
        let license = License::free(new_id(), installed.guild_id, &mark);
        tables::insert(tx, &license).await?;
        return emit_granted(tx, &license).await;
    };
    if license.follow_guild(&mark) {
        let is_granted = license.reinstall();
        tables::save(tx, &license).await?;
        if is_granted {
            emit_granted(tx, &license).await?;
        }
    }
    Ok(())
}

/// The licence of a guild, if this event is newer than the last applied one.
async fn license_of_guild(tx: &Tx, event: &Event, guild_id: &str) -> Result<Vec<License>> {
    let license = tables::lock(tx, ("guild_id", guild_id)).await?;
    let with_news = license.and_then(|mut license| license.follow_guild(&mark(event)).then_some(license));
    Ok(with_news.into_iter().collect())
}

/// The licence of a subscription, if this event is newer than the last applied one.
async fn license_of_subscription(tx: &Tx, event: &Event, subscription_id: &str) -> Result<Vec<License>> {
    let license = tables::lock(tx, ("subscription_id", subscription_id)).await?;
    let with_news = license.and_then(|mut license| {
        let is_news = license.follow_subscription(&mark(event));
        is_news.then_some(license)
    });
    Ok(with_news.into_iter().collect())
}

async fn suspend(tx: &Tx, licenses: Vec<License>, reason: &str) -> Result<()> {
    for mut license in licenses {
        let is_suspended = license.suspend();
        tables::save(tx, &license).await?;
        if is_suspended {
            let suspended = LicenseSuspended {
                license_id: license.license_id,
                reason: reason.to_owned(),
            };
            emit(tx, &suspended).await?;
        }
    }
    Ok(())
}

async fn cancel(tx: &Tx, event: &Event) -> Result<()> {
    let deleted: GuildDeleted = event.decode()?;
    for mut license in license_of_guild(tx, event, &deleted.guild_id).await? {
        let is_canceled = license.cancel();
        tables::save(tx, &license).await?;
        if is_canceled {
            let license_id = license.license_id;
            emit(tx, &LicenseCanceled { license_id }).await?;
        }
    }
    Ok(())
}

/// Extends the licence, unless it is canceled. A payment for an announced lower plan also downgrades it.
async fn extend(tx: &Tx, event: &Event) -> Result<()> {
    let succeeded: PaymentSucceeded = event.decode()?;
    let until = succeeded.new_period_end;
    let license = tables::lock(tx, ("subscription_id", &succeeded.subscription_id)).await?;
    let Some(license) = license.filter(|license| !license.is_over()) else {
        return Ok(());
    };
    if !tables::extend(tx, &license, until).await? {
        return Ok(());
    }
    let extended = LicenseExtended {
        license_id: license.license_id.clone(),
        new_expires_at: until,
    };
    emit(tx, &extended).await?;
    match license.plan_paid_until(until) {
        Some(plan) => {
            let expires_at = Some(until);
            downgrade(tx, License { expires_at, ..license }, plan).await
        }
        None => Ok(()),
    }
}

async fn downgrade_to_free(tx: &Tx, event: &Event) -> Result<()> {
    let failed: PaymentFailedFinal = event.decode()?;
    for license in license_of_subscription(tx, event, &failed.subscription_id).await? {
        downgrade(tx, license, Plan::Free).await?;
    }
    Ok(())
}

async fn downgrade(tx: &Tx, mut license: License, plan: Plan) -> Result<()> {
    let old = license.downgrade_to(plan);
    tables::save(tx, &license).await?;
    if let Some(old) = old {
        let downgraded = LicenseDowngraded {
            license_id: license.license_id,
            old_plan: old.code().to_owned(),
            new_plan: plan.code().to_owned(),
        };
        emit(tx, &downgraded).await?;
    }
    Ok(())
}

async fn upgrade(tx: &Tx, event: &Event) -> Result<()> {
    let upgraded: PlanUpgraded = event.decode()?;
    for mut license in license_of_subscription(tx, event, &upgraded.subscription_id).await? {
        license.upgrade(plan(&upgraded.new_plan)?);
        tables::save(tx, &license).await?;
    }
    Ok(())
}

async fn note_downgrade(tx: &Tx, event: &Event) -> Result<()> {
    let downgraded: PlanDowngraded = event.decode()?;
    for mut license in license_of_subscription(tx, event, &downgraded.subscription_id).await? {
        license.next_plan = Some((plan(&downgraded.new_plan)?, downgraded.effective_at));
        tables::save(tx, &license).await?;
    }
    Ok(())
}

async fn emit_granted(tx: &Tx, license: &License) -> Result<()> {
    let granted = LicenseGranted {
        license_id: license.license_id.clone(),
        guild_id: license.guild_id.clone(),
        plan_code: license.plan.code().to_owned(),
    };
    emit(tx, &granted).await?;
    Ok(())
}

fn plan(code: &str) -> Result<Plan> {
    Plan::of(code).ok_or_else(|| Error::invalid(format!("there is no plan {code:?}")))
}
