DROP TABLE sa_schema;
DROP TABLE sa_provider_gate;
DROP TABLE sa_pulse;
