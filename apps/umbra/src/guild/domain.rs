//! The rules of a guild.

use crate::refusal::Refusal;

/// A guild that has or had the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guild {
    /// The guild's number on Discord.
    pub(crate) guild_id: String,
    /// The owner.
    pub(crate) owner_id: String,
    /// Whether the bot is installed.
    pub(crate) status: Status,
    /// The number of changes.
    pub(crate) version: i64,
}

/// Whether the bot is installed in a guild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// The bot is installed.
    Installed,
    /// The bot was removed.
    Kicked,
    /// The guild was deleted.
    Deleted,
}

impl Status {
    /// The name in the database and in responses.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Installed => "installed",
            Self::Kicked => "kicked",
            Self::Deleted => "deleted",
        }
    }

    /// Parses [`Status::name`].
    pub(crate) fn of(name: &str) -> Self {
        match name {
            "installed" => Self::Installed,
            "kicked" => Self::Kicked,
            _ => Self::Deleted,
        }
    }
}

impl Guild {
    /// Installs the bot, also again after a removal. The installing user counts as the owner until Discord reports another
    /// owner.
    pub(crate) fn install(known: Option<Self>, guild_id: &str, installer_user_id: &str) -> Result<Self, Refusal> {
        let version = known.as_ref().map_or(1, |guild| guild.version);
        match known.map(|guild| guild.status) {
            Some(Status::Installed) => Err(Refusal::conflict("already_installed", "the bot is in this guild")),
            Some(Status::Deleted) => Err(Refusal::conflict("guild_deleted", "this guild was deleted")),
            Some(Status::Kicked) | None => Ok(Self {
                guild_id: guild_id.to_owned(),
                owner_id: installer_user_id.to_owned(),
                status: Status::Installed,
                version,
            }),
        }
    }

    /// Removes the bot.
    pub(crate) fn kick(&mut self) -> Result<(), Refusal> {
        self.check_installed()?;
        self.status = Status::Kicked;
        Ok(())
    }

    /// Sets a new owner. Returns the old owner.
    pub(crate) fn change_owner(&mut self, owner_id: &str) -> Result<String, Refusal> {
        self.check_installed()?;
        if self.owner_id == owner_id {
            return Err(Refusal::conflict("same_owner", "this user owns the guild already"));
        }
        Ok(std::mem::replace(&mut self.owner_id, owner_id.to_owned()))
    }

    /// Marks the guild as deleted, with or without the bot.
    pub(crate) fn delete(&mut self) -> Result<(), Refusal> {
        if self.status == Status::Deleted {
            return Err(Refusal::conflict("guild_deleted", "this guild was deleted"));
        }
        self.status = Status::Deleted;
        Ok(())
    }

    /// Returns an error unless the bot is installed.
    pub(crate) fn check_installed(&self) -> Result<(), Refusal> {
        match self.status {
            Status::Installed => Ok(()),
            Status::Kicked | Status::Deleted => Err(Refusal::conflict("not_installed", "the bot is not in this guild")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bot_comes_goes_and_comes_back_but_not_to_a_guild_that_is_gone() {
        let mut guild = Guild::install(None, "1", "ada").unwrap();
        assert_eq!(
            Guild::install(Some(guild.clone()), "1", "bob").unwrap_err().code,
            "already_installed"
        );
        assert_eq!(guild.change_owner("ada").unwrap_err().code, "same_owner");
        assert_eq!(guild.change_owner("bob").unwrap(), "ada");
        guild.kick().unwrap();
        assert_eq!(guild.kick().unwrap_err().code, "not_installed");
        assert_eq!(guild.change_owner("ada").unwrap_err().code, "not_installed");
        let mut guild = Guild::install(Some(guild), "1", "eve").unwrap();
        guild.delete().unwrap();
        assert_eq!(guild.delete().unwrap_err().code, "guild_deleted");
        assert_eq!(
            Guild::install(Some(guild), "1", "ada").unwrap_err().code,
            "guild_deleted"
        );
    }
}
