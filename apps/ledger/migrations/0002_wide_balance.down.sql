-- Fails while a balance exceeds what the older version can hold: a balance is never null.
update ledger_account set balance = null where balance_high <> 0;
update ledger_entry set balance_after = null where balance_after_high <> 0;
alter table ledger_entry drop column /*M! if exists */ balance_after_high;
alter table ledger_account drop column /*M! if exists */ balance_high;
