-- MariaDB commits at each statement, and it alone reads the comments with an M: a migration that broke off is run again.

-- A clearing account is the other side of all deposits of a currency, so its balance may exceed a bigint. What it exceeds stands here,
-- in units of 10^18: the balance is balance_high * 10^18 + balance. A customer's balance has no high part.
alter table ledger_account add column /*M! if not exists */ balance_high bigint not null default 0;
alter table ledger_entry add column /*M! if not exists */ balance_after_high bigint not null default 0;
