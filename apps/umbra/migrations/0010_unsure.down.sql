alter table umbra_attempt drop column is_unsure;
