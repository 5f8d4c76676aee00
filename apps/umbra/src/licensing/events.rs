//! The events of licences.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::catalog::catalog;

/// A guild received a licence for a plan.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LicenseGranted {
    /// The licence.
    pub license_id: String,
    /// The guild.
    pub guild_id: String,
    /// The plan.
    pub plan_code: String,
}

/// A licence was extended.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LicenseExtended {
    /// The licence.
    pub license_id: String,
    /// The new end of the licence.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "String")]
    pub new_expires_at: OffsetDateTime,
}

/// A licence was downgraded.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LicenseDowngraded {
    /// The licence.
    pub license_id: String,
    /// The plan before the downgrade.
    pub old_plan: String,
    /// The plan after the downgrade.
    pub new_plan: String,
}

/// A licence was suspended.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LicenseSuspended {
    /// The licence.
    pub license_id: String,
    /// The reason.
    pub reason: String,
}

/// A licence was canceled.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LicenseCanceled {
    /// The licence.
    pub license_id: String,
}

catalog! {
    LicenseGranted of "license" by license_id,
    LicenseExtended of "license" by license_id,
    LicenseDowngraded of "license" by license_id,
    LicenseSuspended of "license" by license_id,
    LicenseCanceled of "license" by license_id,
}
