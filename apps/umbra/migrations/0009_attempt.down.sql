alter table umbra_subscription drop column next_plan_from_ms;
alter table umbra_attempt drop column amount;
alter table umbra_attempt drop column card_token;
alter table umbra_attempt drop column plan_code;
