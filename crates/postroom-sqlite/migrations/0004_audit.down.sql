drop table postroom_admin_audit;
drop table postroom_audit_events;
