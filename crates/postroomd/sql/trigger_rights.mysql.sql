-- Whether `postroom migrate` can make its triggers, the last of which is the archive's.
select case
  when not @@log_bin then 'no binary log'
  when @@log_bin_trust_function_creators then 'on'
  when exists (
    select 1 from information_schema.triggers
    where trigger_schema = database() and trigger_name = 'postroom_audit_events_immutable'
  ) then 'off, and the triggers are there'
  when exists (
    select 1 from information_schema.user_privileges
    where privilege_type = 'SUPER' and grantee = concat('''', replace(current_user(), '@', '''@'''), '''')
  ) then 'off, and this user has SUPER'
  else 'off, and this user does not have SUPER'
end
