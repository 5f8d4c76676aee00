drop table /*M! if exists */ user_activity_reprocess;
