drop table if exists postroom_admin_audit;
drop table if exists postroom_audit_events;
