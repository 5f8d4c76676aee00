drop table umbra_attempt;
drop table umbra_subscription;
drop table umbra_billing_key;
